"""The audit trail: moves ended requests from the outbox into SQL tables, and reads, deletes and copies them there.

Knows SQL and one Redis stream; must not know the ledger's keys, stores, settings or Celery.
"""
