"""Stores: where documents are indexed and searched.  A store receives values and must not know settings or Celery."""
