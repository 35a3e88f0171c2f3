"""Backups: their content, and copying the data of an installation into one and back."""
