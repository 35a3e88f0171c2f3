"""The API keys: what each may do, when it was used last, and its end.  For the operator's keys."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anyio import to_thread

from api.timestamps import cursor_after, read_cursor
from console.pages import Page, Visit, fields_of
from records.keys import changes
from records.keys.key_store import Key, key_prefix

PAGE = 100
LIMITS = {
    "max_top_k": "{:g} hits of a question",
    "max_depth": "{:g} documents of a branch",
    "max_questions": "{:g} questions of a search",
    "max_timeout_s": "{:g} s for a search",
    "requests_per_minute": "{:g} calls a minute",
}


async def show(visit: Visit) -> dict[str, Any]:
    """Raises Forbidden for another key than the operator's, and Problem for a wrong page."""
    visit.session.grant.require_operators()
    after = read_cursor(visit.parameters.get("after"))
    keys = await to_thread.run_sync(lambda: visit.services.keys.list(PAGE + 1, after=after))
    more = keys[PAGE - 1] if len(keys) > PAGE else None
    latest = await to_thread.run_sync(changes.last, visit.services.database, 20)
    now_ms = time.time_ns() // 1_000_000
    return {
        "keys": [key_view(key, now_ms) for key in keys[:PAGE]],
        "next": None if more is None else cursor_after(more.created_at_ms, more.key_id),
        "changes": [asdict(change) for change in latest],
        "own": visit.session.grant.key_id,
    }


def key_view(key: Key, now_ms: int) -> dict[str, Any]:
    return {
        **fields_of(key, "key_id", "name", "tenant", "created_at_ms", "used_at_ms", "expires_at_ms"),
        "shown": key_prefix(key.key_id),
        "state": key.state(now_ms),
        "may": rights_in_words(key),
    }


def rights_in_words(key: Key) -> list[str]:
    """One statement each."""
    where = "every namespace" if key.namespaces is None else ", ".join(key.namespaces)
    words = [f"{', '.join(key.scopes)} in {where}"]
    if key.filters:
        words.append(f"only documents that meet {json.dumps(key.filters, ensure_ascii=False)}")
    limits = [
        text.format(value) for name, text in LIMITS.items() if (value := getattr(key, name)) is not None
    ]
    return [*words, f"at most {', '.join(limits)}"] if limits else words


async def revoke(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, NoSuchKey."""
    grant, services, key_id = visit.session.grant, visit.services, form.get("key", "")
    grant.require_operators()
    await to_thread.run_sync(services.keys.revoke, key_id)
    who = visit.session.key_name
    await to_thread.run_sync(changes.record, services.database, grant, who, "revoke key", key_id)
    return "/keys"


PAGES = (Page("/keys", "Keys", "keys.html", show, ("admin",), post=revoke),)
