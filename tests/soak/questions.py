"""The questions and the expected answers: every document names its question and its branch."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from models.declarations.extensions import BranchKind
from models.hits import Hit, Ranking
from tasks.branches.branch_task import BranchTask
from tests.support.pipelines import kinds

KIND = "telling"
BRANCHES = ("first", "second", "third")
PIPELINE = """
[stores.local]
kind = "embedded"
""" + "".join(
    f"""
[branches.{name}]
kind = "{KIND}"
group = "{name}"
store = "local"
"""
    for name in BRANCHES
)

NAMESPACE = "soak"
COMMON_OPTIONS = {"namespace": NAMESPACE, "top_k": 10, "include": ["ids", "explanation"]}
"""Options of all requests; with others, equal questions would not share an answer."""
PREFIX = "soak-"
TIMEOUTS_S = (0.4, 0.8, 1.5, 3.0)


def declare() -> None:
    """Declare the kind in this process, for the pipeline's reader and the search tasks."""
    kinds.declare_kinds({KIND: BranchKind(search_telling, can_batch=True)})


def search_telling(part: BranchTask) -> list[Ranking]:
    return [
        Ranking(tuple(Hit(f"{name}#0", name, 1 / (place + 1)) for place, name in enumerate(names)))
        for names in (documents(part.branch.name, text) for text in part.texts)
    ]


def token(text: str) -> str:
    """Returns the word that identifies a question."""
    return text.rpartition(" ")[2]


def documents(branch: str, text: str) -> tuple[str, str]:
    """Returns the documents that a branch finds: the one that all branches find, and its own."""
    return f"common.{token(text)}", f"{branch}.{token(text)}"


def shared_question(chance: random.Random) -> str:
    """Returns one of the questions that several requests ask."""
    return f"question s{chance.randrange(200)}"


def options(seed: int, number: int) -> dict[str, Any]:
    """Returns the `number`th request of a soak, as keyword arguments of `make_request`."""
    chance = random.Random(f"{seed}:{number}")
    if shared := chance.random() < 0.25:
        texts = [shared_question(chance)]
    else:
        texts = [f"question {number}x{i}" for i in range(3 if chance.random() < 0.15 else 1)]
    return {
        "questions": texts,
        "request_id": f"{PREFIX}{seed}-{number}",
        **COMMON_OPTIONS,
        "cache": "use" if shared else "bypass",
        "timeout_s": chance.choice(TIMEOUTS_S),
        "on_missing": chance.choices(("degrade", "fail", "empty"), (85, 10, 5))[0],
    }


@dataclass(frozen=True, slots=True)
class Question:
    """One question of an ended request, with its hits in order."""

    text: str
    status: str
    hits: Sequence[str]
    found_by: Mapping[str, Set[str]]
    """The branches that found each document, by document."""


def wrong(question: Question, *, missing: Set[str], is_emptied: bool) -> str | None:
    """Returns what is wrong with the hits if the answer names the branches `missing`, or None.

    `is_emptied`: a branch was missing, and the policy then gives no hits.
    """
    answered = set(BRANCHES) - missing
    if question.status in ("failed", "cancelled", "refused", "skipped") or is_emptied:
        return f"{question.status}, with hits {list(question.hits)}" if question.hits else None
    if question.status == "complete" and missing:
        return f"complete, without {sorted(missing)}"
    common, own = (
        f"common.{token(question.text)}",
        {documents(name, question.text)[1]: name for name in answered},
    )
    if set(question.hits) != {common, *own} or len(set(question.hits)) != len(question.hits):
        return f"{question.text!r} without {sorted(missing)} has hits {list(question.hits)}"
    if question.found_by[common] != answered or any(question.found_by[one] != {own[one]} for one in own):
        return f"{question.text!r}: found by {dict(question.found_by)}"
    if question.hits[0] != common and len(answered) > 1:
        return f"{question.text!r}: {question.hits[0]} stands before what all found"
    return None
