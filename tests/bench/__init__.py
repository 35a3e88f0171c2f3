"""Measurements of the whole pipeline; each run measures the alternatives side by side.

Uses `tasks`; the wheel and the image do not have it.
"""
