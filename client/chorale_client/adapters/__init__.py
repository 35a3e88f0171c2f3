"""Retrievers of other frameworks that ask Chorale: one module a framework, each an extra of `chorale-client`.

A branch that fails makes no adapter raise: it returns what was found, with its coverage.  InvalidRequest and
ServiceUnavailable are raised as the client raises them.
"""
