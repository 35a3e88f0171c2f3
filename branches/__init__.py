"""What a branch does with its part of a request: it searches, and some kinds ask a model first.

The kinds are in `branches.searches` and `branches.hyde`.  No kind knows Celery."""
