"""Brings the branches' rankings together: collapse, fuse, boost, fold, snippets, answer.

Pure: knows no clock, queue, socket or setting, and nothing of stores or models; every value is given.
"""
