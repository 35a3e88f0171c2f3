"""The work of a branch on its part of a request: it searches, and some kinds call a model before.

The kinds are in `tasks.branches.searches` and `tasks.branches.hyde`.  No kind knows Celery."""
