"""The loader for YAML that somebody else wrote: it bounds what a small file can cost."""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 20_000
"""PyYAML takes up to half a second for so many characters, if each of them is a sign of YAML."""
_DEEPEST = 50


class BoundedLoader(yaml.SafeLoader):
    """A loader without aliases, with at most 50 levels of brackets, and with MarkedYAMLError for each wrong value.

    Nested aliases of a few hundred bytes stand for billions of values, and the scanner takes ever longer for a bracket within brackets.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            self._refuse("aliases (`*name`) are not allowed")
        if self.flow_level > _DEEPEST:
            self._refuse(f"nested deeper than {_DEEPEST} levels")
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, ArithmeticError, AttributeError) as error:
            # PyYAML lets the errors of Python through, for example for 2026-99-99, !!bool x and 5,000 digits.
            kind = node.tag.rpartition(":")[2]
            problem = f"{node.value[:40]!r} is not a value of the type {kind}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error

    def _refuse(self, problem: str) -> None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
