"""What a model's endpoint says with a status that is no success: the failure, whether to try again, and when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

from pydantic_core import from_json

from models.errors import NotConfigured, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised

_FAILURES: Mapping[int, type[StageFailure]] = {
    400: NotConfigured,
    401: Unauthorised,
    403: Unauthorised,
    404: NotConfigured,
    408: StoreTimeout,
    413: NotConfigured,
    422: NotConfigured,
}
"""The failure for each HTTP status; all other statuses become StoreUnavailable."""
_TRANSIENT = frozenset({408, 409, 425, 429})
"""Statuses that are retried, as are those from 500 on."""
_EXPLAINED = frozenset({402, 429})
"""Statuses whose message is shown: it says whether to wait or to pay."""
_MOVED = range(300, 400)
_CODE = re.compile(r"[A-Za-z_]+(?:[_.-][A-Za-z0-9]+)*")
_LONGEST_CODE = 100


def is_temporary(status: int) -> bool:
    return status >= 500 or status in _TRANSIENT


def refusal(where: str, status: int, show: Callable[[], object]) -> StageFailure:
    """The failure for a status; `show` gives what the body says, where that may be shown."""
    where = f"{where}: HTTP {status}"
    if status in _MOVED:
        return NotConfigured(f"{where}: redirects are not followed; declare the url that this one leads to")
    kind = _FAILURES.get(status, StoreUnavailable)
    # An endpoint that refuses a key may quote part of it, so its message is not shown.
    message = show() if kind is NotConfigured or status in _EXPLAINED else ""
    return kind(f"{where}: {message}".rstrip(": "))


def error_message(body: bytes) -> object:
    """What the body of an error says, as most endpoints write it."""
    try:
        message = from_json(body)
    except ValueError:
        return ""
    for name in ("error", "message", "detail"):
        message = message.get(name, message) if isinstance(message, Mapping) else message
    return "" if isinstance(message, Mapping) else message


def error_code(body: bytes, sent: bytes) -> str:
    """The code in the body of an error, such as `model_not_found`, if it quotes nothing that was sent."""
    try:
        error = from_json(body)
    except ValueError:
        return ""
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    if not isinstance(error, Mapping):
        return ""
    codes = (error.get(name) for name in ("code", "error_type", "type"))
    short = (code for code in codes if isinstance(code, str) and len(code) <= _LONGEST_CODE)
    words = filter(_CODE.fullmatch, short)
    return next((word for word in words if word.encode() not in sent), "")


_SAYS_LIMIT = re.compile(
    r"(?:\b(?:at most|max\w*+|limit\w*+|(?:larger|greater|more|less|fewer|longer) than|exceed\w*+|up to)|>)\D{0,40}?(\d{1,7})\b"
)
_MANY = re.compile(
    r"batch|too many (?!tokens|characters|words)|\b(?:items|inputs|texts|documents|passages|elements)\b.{0,20}\d"
    r"|\d+ (?:items|inputs|texts|documents|passages|elements)\b"
)
_LONG = re.compile(r"token|context|sequence|too[ _]long|length|characters")


def limit_advice(status: int, body: bytes, sent: bytes) -> str:
    """Which option to lower, if the body of an error says that a request was too large; empty otherwise.

    Of what the endpoint says only the limit is shown, and only if its place is not in what was sent.
    """
    if status not in (400, 413, 422):
        return ""
    message = str(error_message(body) or body.decode(errors="replace"))[:2_000].lower()
    what, options = "the request is too large for it", "`batch` or `max_pieces`"
    if _MANY.search(message):
        what, options = "too many texts for it", "`batch`"
    elif _LONG.search(message) and "per request" not in message:
        what, options = "a text is too long for it", "`max_pieces`"
    elif status != 413 and "per request" not in message:
        return ""
    match = _SAYS_LIMIT.search(message)
    limit = f" (its limit: {match[1]})" if match and match[0].encode() not in sent.lower() else ""
    return f"{what}{limit}: set a lower {options}"


def retry_after_s(retry_after: str, otherwise_s: float) -> float:
    """The pause that the endpoint's Retry-After (RFC 9110) names."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return otherwise_s
