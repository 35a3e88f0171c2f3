"""What a pipeline file declares: engines, sources as they are, extensions and fusion methods, with what makes a declaration safe."""
