"""Writes files that have passwords in them."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write a file for this user alone, whole or not at all."""
    draft = file.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    draft.replace(file)
