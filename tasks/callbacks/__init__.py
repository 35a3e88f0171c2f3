"""Telling tasks of other applications that a request or a job has ended."""
