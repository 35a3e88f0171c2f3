"""Backups of an installation: making them, and putting one in place of the data."""
