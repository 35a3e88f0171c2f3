"""A graph of a namespace's documents in memory, derived from the documents of another store."""
