"""One request, step by step: retrieve (accept, plan), fanout, search (a branch), fuse, ending.

Knows no store or model by name, and no private name of Celery.
"""
