"""Requests in flight: which branches are expected and have answered, when to join and to end, and the terminal write.

The ledger knows Redis and the words on the wire, but no Celery and no settings.  All Lua of the service is in `scripts/`.
"""
