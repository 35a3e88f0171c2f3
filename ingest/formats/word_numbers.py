"""The numbers that Word puts before paragraphs (`4.2`, `a)`): a file has only the rules that make them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    )
)
_MOST = 100_000
"""A larger number is not taken for the number of a paragraph."""
_ALPHABETS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщэюя",
    "ganada": "가나다라마바사아자차카타파하",
    "aiueo": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
}
_CHINESE = ("chineseCounting", "japaneseCounting", "taiwaneseCounting")
_DIGITS = "〇一二三四五六七八九"
_CARDINALS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"""
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth sixtieth seventieth eightieth ninetieth"""
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class _List:
    rules: str
    """The rules that make its numbers.  Lists of the same rules count on, unless one begins anew."""
    levels: dict[int, Any]
    begins_anew: dict[int, int]
    """The number with which the list begins anew, by level."""

    def start(self, level: int) -> int:
        return self.begins_anew.get(level, int(_of(self.levels[level], "start") or 0))

    def begins_below(self, level: int) -> int:
        """A paragraph of a level above this one makes `level` begin anew."""
        own = _of(self.levels[level], "lvlRestart") if level in self.levels else ""
        return min(level, int(own or level))


@dataclass(slots=True)
class Numbers:
    """Counts the paragraphs of a document in their order."""

    numbering: Any = None
    """The root of the part with the rules; None if the document has none."""
    is_english: bool = True
    """Ordinal numbers and number words are English; in other languages they are digits."""
    _lists: dict[str, _List] = field(default_factory=dict)
    _counts: defaultdict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    _begun: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.numbering is None:
            return
        lists = {value_of(each, "abstractNumId"): each for each in self.numbering.iter(f"{W}abstractNum")}
        by_style = {
            value_of(link): each
            for each in lists.values()
            if (link := each.find(f"{W}styleLink")) is not None
        }
        for number in self.numbering.iter(f"{W}num"):
            name = value_of(number.find(f"{W}abstractNumId"))
            rules = lists.get(name)
            if rules is not None and (link := rules.find(f"{W}numStyleLink")) is not None:
                rules = by_style.get(value_of(link), rules)
            if rules is None:
                continue
            levels = {_number(level, "ilvl"): level for level in rules.iter(f"{W}lvl")}
            begins_anew: dict[int, int] = {}
            for override in number.iter(f"{W}lvlOverride"):
                levels |= {_number(override, "ilvl"): level for level in override.iter(f"{W}lvl")}
                if start := _of(override, "startOverride"):
                    begins_anew[_number(override, "ilvl")] = int(start)
            self._lists[value_of(number, "numId")] = _List(name, levels, begins_anew)

    def next(self, list_id: str, level: int) -> str:
        """What stands before the next paragraph of a list: its number, `-` for a bullet, and nothing without a list."""
        own = self._lists.get(list_id)
        if own is None or level not in own.levels:
            return ""
        counts = self._counts[own.rules]
        if level in own.begins_anew and (list_id, level) not in self._begun:
            self._begun.add((list_id, level))
            counts.pop(level, None)
        counts[level] = counts[level] + 1 if level in counts else own.start(level)
        for deeper in [each for each in counts if level < own.begins_below(each)]:
            del counts[deeper]
        if _of(own.levels[level], "numFmt") == "bullet":
            return "-"
        is_legal = own.levels[level].find(f"{W}isLgl") is not None

        def number_text(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            if at not in own.levels:
                return ""
            form = "decimal" if is_legal else _of(own.levels[at], "numFmt")
            return _formatted(counts.setdefault(at, own.start(at)), form, is_english=self.is_english)

        return " ".join(re.sub(r"%([1-9])", number_text, _of(own.levels[level], "lvlText")).split())


def _formatted(number: int, form: str, *, is_english: bool) -> str:
    if form in ("none", "bullet"):
        return ""
    if not 0 < number < _MOST:
        return str(number)
    match form.replace("FullWidth", ""):
        case "upperLetter" | "upperRoman" | "russianUpper":
            return _formatted(
                number, form.replace("upper", "lower").replace("Upper", "Lower"), is_english=True
            ).upper()
        case alphabet if letters := _ALPHABETS.get(alphabet):
            # After z follow aa, bb, cc.
            return letters[(number - 1) % len(letters)] * ((number - 1) // len(letters) + 1)
        case "lowerRoman":
            roman = ""
            for value, letters in _ROMAN:
                roman += letters * (number // value)
                number %= value
            return roman.lower()
        case "decimalZero":
            return f"{number:02}"
        case "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" if number <= 20:
            return chr(ord("①") + number - 1)
        case "ideographDigital" | "taiwaneseDigital":
            return "".join(_DIGITS[int(digit)] for digit in str(number))
        case counting if counting.removesuffix("Thousand") in _CHINESE and number < 100:
            tens, ones = divmod(number, 10)
            return (
                (_DIGITS[tens] if tens > 1 else "") + ("十" if tens else "") + (_DIGITS[ones] if ones else "")
            )
        case "ordinal" if is_english:
            return f"{number}{'th' if number // 10 % 10 == 1 else _ENDINGS.get(number % 10, 'th')}"
        case "cardinalText" if is_english and number < 100:
            return _in_words(number, _CARDINALS)
        case "ordinalText" if is_english and number < 100:
            return _in_words(number, _ORDINALS)
    return str(number)


def _in_words(number: int, last_words: str) -> str:
    tens, ones = divmod(number, 10)
    words = last_words.split()
    if number > 20 and ones:
        return f"{_CARDINALS.split()[tens + 17]}-{words[ones - 1]}".capitalize()
    return words[number - 1 if number < 20 else tens + 17].capitalize()


def _of(level: Any, name: str) -> str:
    child = level.find(f"{W}{name}")
    return "" if child is None else value_of(child)


def value_of(node: Any, attribute: str = "val") -> str:
    return str(node.get(f"{W}{attribute}", "")) if node is not None else ""


def _number(node: Any, attribute: str) -> int:
    return int(value_of(node, attribute) or 0)
