"""Retrievers of other frameworks that ask Chorale: one module a framework, each an extra of `chorale-client`.

A branch that fails makes no adapter raise: it returns what was found, with its coverage.  InvalidRequest and
ServiceUnavailable are raised as the client raises them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Imports inside it raise ImportError with the command that installs the extra."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"this adapter needs {error.name or 'its framework'}: install the client with its extra, "
            f"pip install -e './client[{extra}]' in a clone",
            name=error.name,
        ) from error
