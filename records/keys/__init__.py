"""Who calls from outside, and what the caller may do: keys in SQL, and the grant of each.

A grant is applied below every surface: it narrows requests and jobs, and says which ids are the caller's.
"""
