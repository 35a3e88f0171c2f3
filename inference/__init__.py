"""Neural models: embedders, hypothesis generators, rerankers; loaded after a worker started, never at import.

Is given names, limits and texts; knows no store, no settings and no Celery.
"""
