"""The words of a text as a person reads them: without markup inside words, characters that nobody sees, and optional vowel marks.

Search and highlighter both read texts through `readable`, so that they agree about words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

CJK = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_HAN_AND_KANA = CJK.replace("\uac00-\ud7af", "")
SOUTH_EAST_ASIA = "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Thai, Lao, Burmese and Khmer."""


def _marks(first: int, last: int) -> str:
    return "".join(chr(code) for code in range(first, last) if unicodedata.category(chr(code))[0] == "M")


# A consonant that stands under another (after a Khmer coeng or a Burmese virama) is part of the other's cluster.
_CLUSTER = re.compile(rf"[{CJK}]|[{SOUTH_EAST_ASIA}](?:[\u17d2\u1039].|[{_marks(0xE00, 0x1800)}])*")
UNSPACED = re.compile(
    rf"[{CJK}]+|(?:(?=[^\W\d_])[{SOUTH_EAST_ASIA}](?:[\u17d2\u1039].|[{_marks(0xE00, 0x1800)}])*)+"
)
"""A run of characters of a script that is written without spaces between words."""


def clusters(run: str) -> Iterator[tuple[int, int]]:
    """Start and end of each character of a run, with its marks."""
    return (match.span() for match in _CLUSTER.finditer(run))


_HIDDEN = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
    # Vowels and accents that Hebrew and Arabic mostly leave out, and Arabic's lengthening of a line.
    + _marks(0x591, 0x5C8)
    + "\u0640"
    + _marks(0x610, 0x6EE)
)
_ATTRIBUTES = r"""\b(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*\s*/?>"""
_INLINE = "a|abbr|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|rb|ruby|s|samp|small|span|strike|strong|sub|tt|u|var|wbr"
_BLOCK = "blockquote|br|dd|div|dl|dt|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"

# Each alternative with what is read instead.
_READ_AS: dict[str, tuple[str, str | None]] = {
    "entity": (r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,30});", None),
    "reading": (r"(?i:<rt>[^<]*(?:</rt>)?|<rp>[^<]*(?:</rp>)?|</r[tp]>)", ""),
    # As a sign that joins, the raised figure is a word of its own, and `m²` still has the whole of `m2`.
    "raised": (rf"(?i:<sup{_ATTRIBUTES})", "^"),
    "inline": (rf"(?i:</sup>|</?(?:{_INLINE}){_ATTRIBUTES})", ""),
    "block": (rf"(?i:</?(?:{_BLOCK}){_ATTRIBUTES})", " "),
    "separator": (rf"(?<=[{SOUTH_EAST_ASIA}])\u200b(?=[{SOUTH_EAST_ASIA}])", " "),
    "hidden": (rf"\u00ad[ \t]*\r?\n[ \t]*|[{_HIDDEN}]", ""),
    "escape": (r"\\(?=[!-/:-@\[-`{-~])", ""),
    "group": (r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))", "\u2019"),
    "capital": ("\u0130\u0307?", "I"),
    "mark": ("[\u2122\u2120\u00a9\u00ae]", " "),
    "figure": ("[\u00b2\u00b3\u00b9\u2070\u2074-\u2079]+", "^"),
    "apart": ("[\u00bc-\u00be\u2116\u2150-\u215e\u2460-\u24ff\u2776-\u2793]", " "),
    "line_end": (rf"(?<=[{_HAN_AND_KANA}])[ \t]*\r?\n[ \t\u3000]*(?=[{_HAN_AND_KANA}])", ""),
}
_UNREAD = re.compile("|".join(f"(?P<{name}>{pattern})" for name, (pattern, _) in _READ_AS.items()))
_PRECEDED = frozenset({"figure", "apart"})
"""What is read instead stands before these characters, which stay; a fraction is also followed by it."""
_SUSPECT = re.compile(
    rf"[&<\\\u00a0\u2009\u202f\u0130\u2122\u2120\u00a9\u00ae\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u24ff\u2776-\u2793{_HIDDEN}]|[{_HAN_AND_KANA}][ \t]*\r?\n"
)
# Marks of emphasis in pairs; `2*3*4` has none.
_EMPHASIS = re.compile(r"(?<![*~`\\\d])(\*{1,3}|~~|`)(?=[^\s*~`])([^*~`\n]{0,199}[^\s*~`\\])\1(?![*~`])")

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def readable(text: str) -> tuple[str, Sequence[int]]:
    """The text as it is read, and for each of its characters, and its end, the place in the given text."""
    places: Sequence[int] = range(len(text) + 1)
    if _LONE_SURROGATE.search(text):
        text = _LONE_SURROGATE.sub("\ufffd", text)
    if "*" in text or "~~" in text or "`" in text:
        text, places = _replaced(_EMPHASIS, text, places, _without_emphasis)
    if _SUSPECT.search(text):
        text, places = _replaced(_UNREAD, text, places, _read)
    return text, places


_Piece = tuple[str, int | None]
"""A text, and where it starts; None for a text that stands instead of the match."""


def _without_emphasis(match: re.Match[str]) -> list[_Piece]:
    return [(match[2], match.start(2))]


def _read(match: re.Match[str]) -> list[_Piece]:
    name = match.lastgroup or ""
    instead = _READ_AS[name][1]
    if instead is None:
        unescaped = html.unescape(match[0])
        # It may stand for a character that nobody sees; that of `&amp;` begins no other entity.
        return [
            (
                unescaped
                if "&" in unescaped
                else _replaced(_UNREAD, unescaped, range(len(unescaped) + 1), _read)[0],
                None,
            )
        ]
    if name in _PRECEDED:
        return [(instead, None), (match[0], match.start()), (" " if name == "apart" else "", None)]
    return [(instead, None)]


def _replaced(
    pattern: re.Pattern[str],
    text: str,
    places: Sequence[int],
    replacement: Callable[[re.Match[str]], list[_Piece]],
) -> tuple[str, Sequence[int]]:
    parts: list[str] = []
    moved: list[int] = []
    last = 0
    for match in pattern.finditer(text):
        for part, at in ((text[last : match.start()], last), *replacement(match)):
            parts.append(part)
            moved += [places[match.start()]] * len(part) if at is None else places[at : at + len(part)]
        last = match.end()
    return "".join([*parts, text[last:]]), [*moved, *places[last:]]
