"""The audit trail: ended requests from the outbox into SQL, and back out for people.

Knows SQL and one Redis stream; must not know the ledger's keys, stores, settings or Celery.
"""
