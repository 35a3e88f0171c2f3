"""Caches of answers, question vectors and hypotheses.

Stores bytes under given keys; knows no request, no model and no settings.
"""
