"""Bulk jobs from the command line: their store, watching a job, writing its results."""
