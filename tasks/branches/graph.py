"""The kind of branch that asks a graph with the Cypher statement of its declaration.

A statement takes values only as parameters: `$question`, `$entities`, `$namespace`, `$limit`, and `$filter_<field>` with the
values that the filters allow for a field, or null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chorale_client.wire_names import Stage
from pydantic import Field

from models.declarations import cypher
from models.declarations.extensions import BranchKind, Declared
from models.errors import NotConfigured
from models.hits import Ranking
from search.filter_meanings import forced_filters, meanings, requested_filters
from search.filters import choices
from search.protocol import RunsCypher

if TYPE_CHECKING:
    from chorale_client.request import Question, Request

    from tasks.branches.branch_task import BranchTask

MAX_ENTITIES = 64
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|(?<!\w)'([^']+)'(?!\w)")
_WORD = re.compile(r"\w(?:[\w'’./-]*\w)?")


class GraphOptions(Declared):
    cypher: str = Field(min_length=1, max_length=20_000)
    """The statement.  Its rows have a column `id`; `docs/guides/graph.md` lists the parameters and the other columns."""
    score: str | None = Field(None, min_length=1, max_length=256)
    """The column with the score.  Not set: the rows rank in the statement's order, with score 0."""


def search_graph(task: BranchTask) -> list[Ranking]:
    options = GraphOptions(**task.branch.options)
    if not isinstance(task.store, RunsCypher):
        raise NotConfigured(f"the store {task.branch.store!r} runs no Cypher")
    filters = filter_values(task.request, options.cypher)
    started_s = task.clock()
    namespace, timeout_s = task.request.namespace, task.search(task.branch.depth).timeout_s
    named = [
        task.store.names_in(namespace, question.text, timeout_s=timeout_s) for question in task.questions
    ]
    rankings = task.store.search_cypher(
        namespace,
        options.cypher,
        [
            {"question": question.text, "entities": entities(question, names), **filters}
            for question, names in zip(task.questions, named, strict=True)
        ],
        task.search(task.branch.depth),
        score=options.score,
    )
    task.timed(Stage.SEARCH, started_s)
    return rankings


def filter_values(request: Request, statement: str) -> dict[str, list[Any] | None]:
    """The value of each parameter `filter_<field>` that the statement names.

    Raises NotConfigured if a key forces a filter that the statement does not bind: a path could lead through documents that
    the key may not see.
    """
    forced, requested = forced_filters(request), requested_filters(request)
    names = [name for name in cypher.parameters(statement) if name.startswith(cypher.FILTER_PARAMETER)]
    bound = {name.removeprefix(cypher.FILTER_PARAMETER): name for name in names}
    if not forced.keys() <= bound.keys() or any(isinstance(value, Mapping) for value in forced.values()):
        # Details are kept in audit trails, which must not name filters.
        raise NotConfigured(
            f"the key's filters are not bound: the statement must name ${cypher.FILTER_PARAMETER}<field> for each field of the key, and "
            "the key must force a value or a list of values"
        )
    values = {field: _values(value) for field, value in requested.items()}
    values |= {field: choices(value) for field, value in forced.items()}
    return {name: values.get(field) for field, name in bound.items()}


def _values(condition: Any) -> list[Any] | None:
    """Every value that meets the condition, if the condition is a value or a list; None for another condition."""
    if isinstance(condition, Mapping):
        return None
    return [meaning for choice in choices(condition) for meaning in meanings(choice)]


def entities(question: Question, names: Sequence[str] = ()) -> list[str]:
    """The names that a graph may know: the caller's variants of kind `entity`, else what is quoted, what is capitalised, and the
    graph's own `names` in the text."""
    variants = [variant.text for variant in question.variants if variant.kind == "entity"]
    quoted = [text.strip() for groups in _QUOTED.findall(question.text) for text in groups if text.strip()]
    return list(dict.fromkeys(variants or [*quoted, *_capitalised(question.text), *names]))[:MAX_ENTITIES]


def _capitalised(text: str) -> list[str]:
    """Runs of words that begin with a capital letter or contain a digit.  A first word may have its capital letter
    only because it is first, so a run that begins with it also counts without it."""
    runs: list[list[re.Match[str]]] = []
    for word in _WORD.finditer(text):
        if not (word[0][0].isupper() or any(map(str.isdigit, word[0]))):
            continue
        is_next = bool(runs) and text[runs[-1][-1].end() : word.start()].isspace()
        runs[-1].append(word) if is_next else runs.append([word])
    names = [_name(text, run) for run in runs]
    if runs and len(runs[0]) > 1 and not text[: runs[0][0].start()].strip():
        names.insert(1, _name(text, runs[0][1:]))
    return names


def _name(text: str, run: Sequence[re.Match[str]]) -> str:
    return " ".join(text[run[0].start() : run[-1].end()].split())


GRAPH = BranchKind(search_graph, options=GraphOptions, needs=frozenset({"graph"}), searches_http=False)
