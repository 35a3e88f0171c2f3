"""Bulk jobs over HTTP: their routes, their documents, and uploads that are read while they arrive."""
