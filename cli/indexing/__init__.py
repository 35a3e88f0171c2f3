"""`chorale index`: sending documents to workers, waiting for their outcomes, and the report."""
