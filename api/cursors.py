"""Where the next page of a list begins: a moment and an id, as text that callers give back unread."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from api.problems import Problem


def cursor_after(at_ms: int, id_: str) -> str:
    return urlsafe_b64encode(f"{at_ms}.{id_}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[int, str] | None:
    """Raises Problem for a text that is no cursor."""
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
        at_ms, dot, id_ = text.partition(".")
        if dot and id_.isprintable() and at_ms.isdecimal() and int(at_ms) < 2**63:
            return int(at_ms), id_
    except ValueError:
        pass
    raise Problem("invalid", "after: not a cursor of this list; `next` of a page is one", field="after")
