"""Bulk jobs: a file of questions as rows in SQL, answered in segments while interactive requests go first."""
