"""Tables of pipeline files, and what these tests read of an answer."""

from __future__ import annotations

from chorale_client.answer import Answer

LOCAL = '[stores.local]\nkind = "embedded"\n'


def branch(name: str, group: str = "lexical", *, kind: str = "", store: str = "local", more: str = "") -> str:
    """A branch, of the kind of its name by default; `more` are further lines."""
    return f'[branches.{name}]\nkind = "{kind or name}"\ngroup = "{group}"\nstore = "{store}"\n{more}\n'


def ids(answer: Answer) -> list[str]:
    return [hit.document_id for hit in answer.hits]


def reasons(answer: Answer) -> list[tuple[str, str]]:
    return [(line.where, line.reason) for line in answer.degraded]
