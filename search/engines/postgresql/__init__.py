"""The PostgreSQL store (servers 16 and newer, with pgvector 0.8 or newer for vectors): tables of its own for each index.

Each build of a namespace has its own tables, because BM25's word statistics belong to an index, and a graph of vectors that several
namespaces share would return the hits of others first.  PostgreSQL's `ts_rank` knows no rare words.  Must not know settings or other stages.
"""
