"""How `chorale status` shows what is wrong."""

from __future__ import annotations

from rich.console import Console

from cli.commands.status import view


def test_the_status_shows_figures_and_then_what_is_wrong_with_how_to_mend_it() -> None:
    status = {
        "home": "/home/here",
        "redis": {"address": "redis://localhost", "version": "7.0"},
        "workers": [],
        "queues": [],
        "requests_in_flight": 3,
        "outbox": {"entries": 10_000, "refused": 17},
        "namespaces": [
            {"name": "law", "documents": 2, "passages": 3, "generation": 4, "published_generation": 4}
        ],
        "has_more_namespaces": True,
        "adapting": [],
        "findings": [
            {
                "check": "quarantine",
                "what": "malformed entries, such as 'a\x1b]0;x'",
                "mend": "find their owner",
            }
        ],
    }
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        for part in view(status):
            console.print(part)
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    for line in (
        "requests 3 in flight",
        "outbox 10,000 waiting, 17 requests were refused while it was full",
        "law 2 3 4",
        "there are more namespaces: `chorale namespaces list --after law`",
        "quarantine malformed entries, such as 'a\\x1b]0;x'",
        "→ find their owner",
    ):
        assert line in lines
