"""All stores of an installation written as one, from a table of documents in SQL.  The table is the truth, the
stores derive from it.  Must not know which products the stores are."""
