"""Times as people write them: `90d`, `12h`, `30m`, `10s`."""

from __future__ import annotations

import re

UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds_in(text: str) -> int | None:
    """None if the text is no whole number with one of these units."""
    found = re.fullmatch(r"([0-9]{1,18})([smhd])", text)
    return None if found is None else int(found[1]) * UNITS_S[found[2]]
