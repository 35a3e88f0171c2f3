"""Who may do what, by login and key: the drawing of docs/security.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs.drawings.chord import AMBER, BLUE, GREEN, GREY, RED
from docs.drawings.svg import MUTED, arrow, box, page, text


def drawing() -> str:
    return page(960, 440, "Strangers come through HTTP with keys; logins of Redis are for our own", _shapes())


def _shapes() -> Iterator[str]:
    yield box(
        20, 40, 190, 74, "people and programs", "not trusted; a key with", "scopes and namespaces", **RED
    )
    yield box(20, 170, 190, 74, "applications", "trusted with requests;", "login caller or writer", **AMBER)
    yield box(20, 300, 190, 74, "Flower", "sees events; login flower,", "commands nobody", **AMBER)
    yield box(270, 40, 190, 74, "HTTP API", "checks keys; login http,", "TLS ends before it", **BLUE)
    yield box(
        520,
        100,
        190,
        214,
        "Redis",
        "one login for each role:",
        "commands and keys;",
        "only admin configures,",
        "empties or stops it",
        **GREY,
    )
    yield box(760, 40, 180, 74, "workers", "trusted; login worker", **GREEN)
    yield box(760, 170, 180, 74, "sweeper", "trusted; login sweeper", **GREEN)
    yield box(760, 300, 180, 74, "operator", "trusted; login operator", **GREEN)
    yield arrow((210, 77), (267, 77))
    yield arrow((460, 77), (490, 77), (490, 130), (517, 130))
    yield arrow((210, 207), (517, 207))
    yield arrow((210, 337), (490, 337), (490, 284), (517, 284))
    yield arrow((760, 77), (735, 77), (735, 130), (713, 130))
    yield arrow((760, 207), (713, 207))
    yield arrow((760, 337), (735, 337), (735, 284), (713, 284))
    yield text(480, 420, "Whoever may use a login is trusted with all that it may do.", size=13, fill=MUTED)
