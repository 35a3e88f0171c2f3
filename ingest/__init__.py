"""Reads files into documents, splits them into passages, and groups near-duplicates.

Knows no store, no database, no model and no broker.
"""
