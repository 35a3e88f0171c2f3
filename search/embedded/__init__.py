"""The embedded store: documents in SQLite, BM25 in tantivy, exact vector search in numpy.

SQLite is the truth; the lexical index and each process's matrix derive from it and catch up by sequence.  Must not
know settings, the broker or other stages.
"""
