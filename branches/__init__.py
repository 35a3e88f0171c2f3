"""What a branch does with its part of a request: search, with a model's help where its kind needs one.

One kind is one file of `branches/kinds`.  No kind knows Celery."""
