"""The HTTP API: searches, jobs and documents over HTTP, for callers with keys.

The process holds no model and does no search.  It enters requests in the ledger, as the client does, and waits for their end.
"""
