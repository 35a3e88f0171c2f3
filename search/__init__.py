"""Stores: where documents are indexed and searched.  Given values; knows no settings and no Celery."""
