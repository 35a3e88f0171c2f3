"""Answers, question vectors and hypotheses that were computed before.

Stores bytes under keys that it is given; knows no request, no model and no settings.
"""
