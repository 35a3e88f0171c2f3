"""Bulk jobs as a caller sees them: the job, its handle, and the lines of its files."""
