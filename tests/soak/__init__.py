"""Thousands of random questions while a seeded adversary kills, hangs, restarts, duplicates and locks: `make soak`.

Every document says which question and which branch it belongs to, so each answer can be judged by itself.
"""
