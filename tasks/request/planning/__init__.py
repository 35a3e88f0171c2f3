"""The plan of a request: what is asked of which branch, from where, and until when."""
