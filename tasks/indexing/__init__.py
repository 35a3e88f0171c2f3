"""Documents: the messages that bring them, their batches, and one run of indexing."""
