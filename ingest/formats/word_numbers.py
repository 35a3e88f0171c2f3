"""The numbers that Word puts before paragraphs (`4.2`, `a)`): a file has only the rules that make them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LETTERS = 26
_ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    )
)
_MOST = 100_000
"""A larger number is not taken for the number of a paragraph."""


@dataclass(slots=True)
class Numbers:
    """Counts the paragraphs of a document in their order."""

    numbering: Any = None
    """The root of the part with the rules; None if the document has none."""
    _levels: dict[str, tuple[str, dict[int, Any]]] = field(default_factory=dict)
    _counts: defaultdict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        if self.numbering is None:
            return
        lists = {_value(each, "abstractNumId"): each for each in self.numbering.iter(f"{_W}abstractNum")}
        by_style = {
            _value(link): each for each in lists.values() if (link := each.find(f"{_W}styleLink")) is not None
        }
        for number in self.numbering.iter(f"{_W}num"):
            name = _value(number.find(f"{_W}abstractNumId"))
            rules = lists.get(name)
            if rules is not None and (link := rules.find(f"{_W}numStyleLink")) is not None:
                rules = by_style.get(_value(link), rules)
            if rules is None:
                continue
            levels = {_number(level, "ilvl"): level for level in rules.iter(f"{_W}lvl")}
            overridden = False
            for override in number.iter(f"{_W}lvlOverride"):
                overridden = True
                for level in override.iter(f"{_W}lvl"):
                    levels[_number(override, "ilvl")] = level
            # Lists of the same rules count on, unless one begins anew.
            key = f"{name} {_value(number, 'numId')}" if overridden else name
            self._levels[_value(number, "numId")] = key, levels

    def next(self, list_id: str, level: int) -> str:
        """What stands before the next paragraph of a list: its number, `-` for a bullet, and nothing without a list."""
        key, levels = self._levels.get(list_id, ("", {}))
        if level not in levels:
            return ""
        counts = self._counts[key]
        counts[level] = counts[level] + 1 if level in counts else _start(levels[level])
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if _of(levels[level], "numFmt") == "bullet":
            return "-"
        is_legal = levels[level].find(f"{_W}isLgl") is not None

        def shown(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            rule = levels.get(at)
            if rule is None:
                return ""
            return _shown(counts.setdefault(at, _start(rule)), "decimal" if is_legal else _of(rule, "numFmt"))

        return " ".join(re.sub(r"%([1-9])", shown, _of(levels[level], "lvlText")).split())


def _shown(number: int, form: str) -> str:
    match form:
        case _ if not 0 < number < _MOST:
            return str(number)
        case "lowerLetter" | "upperLetter":
            # After z follow aa, bb, cc.
            letters = chr(ord("a") + (number - 1) % _LETTERS) * ((number - 1) // _LETTERS + 1)
            return letters.upper() if form == "upperLetter" else letters
        case "lowerRoman" | "upperRoman":
            roman = ""
            for value, letters in _ROMAN:
                roman += letters * (number // value)
                number %= value
            return roman.lower() if form == "lowerRoman" else roman
        case "decimalZero":
            return f"{number:02}"
        case "none":
            return ""
    return str(number)


def _start(level: Any) -> int:
    return int(_of(level, "start") or 0)


def _of(level: Any, name: str) -> str:
    child = level.find(f"{_W}{name}")
    return "" if child is None else _value(child)


def _value(node: Any, attribute: str = "val") -> str:
    return str(node.get(f"{_W}{attribute}", "")) if node is not None else ""


def _number(node: Any, attribute: str) -> int:
    return int(_value(node, attribute) or 0)
