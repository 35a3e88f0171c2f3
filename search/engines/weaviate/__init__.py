"""The Weaviate store: passages in one collection, with a tenant for each build of a namespace.  Must not know settings or
other stages."""

import warnings

with warnings.catch_warnings():
    # Its import enables every warning of the whole program, also about connections that are open when a command
    # ends.
    import weaviate as _weaviate  # noqa: F401
