"""What a branch does with its part of a request: it searches, and some kinds ask a model first.

Each kind is one file of `branches/kinds`.  No kind knows Celery."""
