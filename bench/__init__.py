"""Measurements of the whole pipeline; each run measures the alternatives side by side.

Uses `tasks`; must not contain anything that the product needs.
"""
