"""JSON lines, one object on each line, as in the BEIR collections; and what JSON documents have in common with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from ingest.clean import refuse_binary
from ingest.collection_rows import record_of, with_text
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Record, Unreadable
from models.not_indexed import NotIndexed


def read(file: OpenFile, options: ReadOptions) -> Iterator[Record | Fault]:
    """Read line by line; a wrong line yields a Fault with its number."""
    for line, raw in _lines(file, options.max_line_bytes):
        if raw is None:
            yield Fault(NotIndexed.TOO_LARGE, f"longer than {options.max_line_bytes:,} bytes", line)
        elif raw.strip():
            try:
                row = parsed(raw)
                if not isinstance(row, dict):
                    raise Unreadable(NotIndexed.MALFORMED, "not a JSON object")
            except Unreadable as error:
                yield Fault(error.reason, str(error), line)
            else:
                yield from record_of(with_text(row, options.fields), options.fields, line=line)


def _lines(stream: OpenFile, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for a line longer than `max_bytes`, which is never in memory as a whole."""
    refuse_binary(stream.peek(4)[:4])
    line = 0
    while raw := stream.readline(max_bytes + 1):
        line += 1
        if len(raw) <= max_bytes or raw.endswith(b"\n"):
            yield line, raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(max_bytes + 1)
        yield line, None


def parsed(raw: bytes) -> Any:
    """The value; raises Unreadable."""
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise Unreadable(NotIndexed.NOT_UTF8, "not UTF-8") from None
    except RecursionError:
        raise Unreadable(NotIndexed.MALFORMED, "nested too deeply") from None
    except ValueError as error:
        raise Unreadable(NotIndexed.MALFORMED, f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
