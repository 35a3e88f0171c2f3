"""Everything that touches a name of Celery or kombu outside their documentation (private_names.md).

Knows nothing of plans, branches or documents: only of messages, tasks and the ledger that joins them.
"""
