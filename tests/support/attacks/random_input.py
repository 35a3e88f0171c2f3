"""What somebody may send who keeps to no rule: JSON of every shape, and requests that are nearly right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chorale_client.request import Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW, MANY = 25, 100

HALVES = st.sampled_from(["\ud800", "a\udfffb"])
TEXT = st.one_of(
    st.text(max_size=20), HALVES, st.sampled_from(["", "\0", "a" * 9_000, "\x1b]0;x\x07", "1e400"])
)
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([2**63, 10**30, -1, 0, 10**400]))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda some: st.lists(some, max_size=4) | st.dictionaries(TEXT, some, max_size=4),
    max_leaves=8,
)
"""As Python reads it: with half characters, endless numbers and NaN."""


def some_of(strategies: Mapping[str, st.SearchStrategy[Any]], *, max_size: int = 4) -> st.SearchStrategy[Any]:
    """Objects with a few of these fields; those of all fields would take ten times as long to make."""
    one = st.sampled_from(sorted(strategies)).flatmap(lambda name: st.tuples(st.just(name), strategies[name]))
    return st.lists(one, max_size=max_size).map(dict)


_NAMES_OF_LINKED = ("first", "args", "kwargs", "options", "root_id", "chain", "link", "link_error")
_LINKED = some_of(dict.fromkeys(_NAMES_OF_LINKED, JSON)).map(
    lambda more: {"task": "t", "queue": "told", **more}
)
_SOUND: Mapping[str, Any] = {
    "namespace": st.just("default"),
    "filters": st.dictionaries(TEXT, JSON, max_size=3),
    "tags": st.dictionaries(TEXT, TEXT, max_size=2),
    "weights": st.dictionaries(TEXT, NUMBERS, max_size=2),
    "branches": st.just(["bm25"]),
    "linked": st.lists(_LINKED, min_size=1, max_size=2),
    "timeout_s": st.just(2),
}
_QUESTIONS = st.sampled_from(
    [["bread"], [{"text": "bread", "variants": [{"kind": "keyword", "text": "loaf"}]}]]
)
_ONE_OPTION = st.sampled_from(["args", "kwargs"]).flatmap(
    lambda name: st.lists(TEXT, max_size=2).map(lambda some: {name: some if name == "args" else {"a": some}})
)
REQUESTS = st.builds(
    lambda questions, options: {**options, "questions": questions},
    _QUESTIONS | JSON,
    some_of({name: _SOUND[name] | JSON if name in _SOUND else JSON for name in Request.model_fields}),
) | _ONE_OPTION.map(
    lambda options: {"questions": ["bread"], "linked": [{"task": "t", "queue": "told", **options}]}
)
"""Fields of requests; some of them are right."""


def with_random(inputs: st.SearchStrategy[Any], check: Callable[[Any], None], examples: int) -> None:
    """Calls `check` with so many inputs, always the same ones."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=quiet
    )
    @given(inputs)
    def each(one: Any) -> None:
        check(one)

    each()
