"""Judged questions: reading them, sending them through the pipeline, and comparing two rankings of them."""
