"""The service's vocabulary: hits, rankings, branch results, plans, errors, and the SQL tables.

Frozen values without side effects.  Knows only `chorale_client` (the words on the wire).
"""
