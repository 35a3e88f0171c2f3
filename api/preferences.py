"""`Prefer: wait=3`, `Prefer: respond-async` (RFC 7240)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.requests import Request

LONGEST_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Preferences:
    wait_s: float | None = None
    """How long the caller waits for an answer; None: until the search ends."""
    applied: str | None = None
    """The value of `Preference-Applied`."""


async def preferences(request: Request) -> Preferences:
    """The caller's preferences.  As the RFC says, one that is unknown or cannot be read is ignored."""
    given: dict[str, str] = {}
    for line in request.headers.getlist("prefer"):
        for preference in _without_quotes(line).split(","):
            name, _, value = preference.partition(";")[0].partition("=")
            given.setdefault(name.strip().lower(), value.strip())
    applied = ["respond-async"] if "respond-async" in given else []
    wait_s: float | None = 0.0 if applied else None
    if re.fullmatch(r"\d{1,6}", given.get("wait", ""), re.ASCII):
        wait_s = min(LONGEST_WAIT_S, int(given["wait"]))
        applied.append(f"wait={wait_s:g}")
    return Preferences(wait_s, ", ".join(applied) or None)


def _without_quotes(line: str) -> str:
    """The line without quotation marks.  Commas and semicolons within quoted texts are removed too."""
    texts = re.sub(r"\\.", "", line).split('"')
    texts[1::2] = [text.translate({ord(","): None, ord(";"): None}) for text in texts[1::2]]
    return "".join(texts)
