"""Weaviate: passages in one collection, a tenant for each namespace, a second collection for what namespaces are."""

import warnings

with warnings.catch_warnings():
    # Its import shows every warning of the whole program, of connections that are open when a command ends.
    import weaviate as _weaviate  # noqa: F401
