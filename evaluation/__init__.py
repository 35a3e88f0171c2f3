"""How good answers are, by judged questions: evaluating, comparing, tuning and training.

Uses `wiring`; must not contain anything that answering a request needs.
"""
