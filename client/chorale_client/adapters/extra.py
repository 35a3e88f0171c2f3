"""The error of an adapter whose framework is not installed."""

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
            f"pip install './client[{extra}]' in a clone",
            name=error.name,
        ) from error
