"""Measurements of the whole pipeline, each side by side with what it is compared to in one run.

Composes what `tasks` offers; must not hold anything that the product needs.
"""
