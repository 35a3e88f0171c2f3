"""Choosing the values of a configuration by judged questions or grades."""
