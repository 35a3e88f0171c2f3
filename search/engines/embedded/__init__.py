"""The embedded store: BM25 in tantivy, exact vector search in numpy, both made of the documents' database.

Each process loads rows from the database and catches up by sequence; vectors it shares with the others of the machine.  Must not know
settings, the broker or other stages.
"""
