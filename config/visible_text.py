"""Makes control and invisible characters of foreign texts visible, so that no text can steer a terminal or forge a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_SUSPECT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of C0 and C1 except tab and newline
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
"""Characters that steer, hide or reorder text; some of them belong to ordinary texts where `_ordinary` matches."""

_EMOJI = "\u00a9\u00ae\u203c\u2049\u2190-\u2bff\u3030\u303d\ufe0f\U0001f000-\U0001faff"
_RIGHT_TO_LEFT = (
    "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
)
_JOINED = (
    f"{_EMOJI}\u0600-\u061b\u061d-\u109f\u1700-\u180a\u1810-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00011000-\U00011fff"
)
"""Emoji, and the scripts in which a zero-width joiner changes how letters look."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff"
"""Scripts without blanks between words (Thai, Lao, Burmese, Khmer), where zero-width spaces allow line breaks."""
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_VARIED = f"#*0-9{_EMOJI}{_JOINED}{_IDEOGRAPHS}".replace("\ufe0f", "")

_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,6}\U000e007f")
"""The flag of a part of a country: letters in invisible tags after a black flag."""


@cache
def _ordinary() -> re.Pattern[str]:
    return re.compile(
        "\r(?=\n)"
        f"|(?<=[{_RIGHT_TO_LEFT}])[\u061c\u200e\u200f]|[\u061c\u200e\u200f](?=[{_RIGHT_TO_LEFT}])"
        f"|(?<=[{_JOINED}])[\u180e\u200c\u200d]"
        f"|(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])"
        f"|(?<=[{_VARIED}])[\ufe00-\ufe0f]"
        f"|(?<=[{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]"
    )


def visible(text: str) -> str:
    r"""The text with `\x1b` in place of the escape character, and likewise for all characters that hide or reorder text.

    Tabs and newlines stay, and what accents, emoji and the scripts of the world are written with.
    """
    return _replaced(text, _escaped)


def visible_line(text: str) -> str:
    r"""`visible` with `\n` in place of newlines: a text that must not look like several lines."""
    return visible(text).replace("\r\n", "\n").replace("\n", r"\n")


def visible_json(document: str) -> str:
    """The JSON document with these characters as `\\u` escapes: its values stay exactly the same."""
    return _replaced(document, _json_escaped)


def _replaced(text: str, escaped: Callable[[str], str]) -> str:
    def judged(match: re.Match[str]) -> str:
        at = match.start()
        return match[0] if _ordinary().match(text, at) or _is_in_a_flag(text, at) else escaped(match[0])

    return _SUSPECT.sub(judged, text)


def _is_in_a_flag(text: str, at: int) -> bool:
    begin = text.rfind("\U0001f3f4", max(0, at - 7), at)
    flag = _FLAG.match(text, begin) if begin >= 0 else None
    return flag is not None and at < flag.end()


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
