"""`chorale index`: writing here as the namespace's one writer, or through the workers of `chorale.index`."""
