"""Rerankers: a cross-encoder scores pairs of question and passage, as many as the time allows."""
