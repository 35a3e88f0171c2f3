"""What the folder of a sentence-transformers model says: its configuration, files, fingerprint, word pieces and pooling."""
