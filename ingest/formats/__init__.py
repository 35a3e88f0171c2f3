"""One reader for each file format.

A reader turns a file into records and knows nothing about sources and document ids.
"""
