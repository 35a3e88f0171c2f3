"""How good answers are, by judged questions: evaluating, comparing and tuning.

Uses `wiring`; must not contain anything that answering a request needs.
"""
