"""The embedded store: BM25 in tantivy, exact vector search in numpy, both made of the documents' database.

Each process loads rows and vectors from the database and catches up by sequence.  Must not know settings, the broker or
other stages.
"""
