"""What a command prints without Rich, which takes long to import.

Whatever is printed may contain texts of strangers: everything goes through `config.visible_text` here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from config.visible_text import visible, visible_json


def print_line(text: str, to: TextIO | None = None) -> None:
    """Print a text as it is, without wrapping it; to stdout by default."""
    print(visible(text), file=to or sys.stdout, flush=True)


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON document with the version of the wire format; numbers that JSON lacks become null."""
    from chorale_client.wire_names import WIRE_VERSION
    from pydantic_core import to_json

    print(visible_json(to_json({"v": WIRE_VERSION, **fields}, inf_nan_mode="null").decode()))
