"""Foreign texts cannot steer a terminal, and ordinary texts stay as they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.visible_text import visible, visible_json, visible_line

HOSTILE = {
    "a link that leads elsewhere (OSC 8)": ("\x1b]8;;http://evil\x1b\\", r"\x1b]8;;http://evil\x1b" + "\\"),
    "a write to the clipboard (OSC 52)": ("\x1b]52;c;cm0gLXJm\x07", r"\x1b]52;c;cm0gLXJm\x07"),
    "a title of the window (OSC 0)": ("\x1b]0;root@host\x07", r"\x1b]0;root@host\x07"),
    "a bell": ("\a", r"\x07"),
    "a cleared screen (CSI)": ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
    "a hidden text (SGR)": ("\x1b[8mhidden", r"\x1b[8mhidden"),
    "a CSI of C1": ("\x9b2J", r"\x9b2J"),
    "an OSC of C1": ("\x9d0;x\x9c", r"\x9d0;x\x9c"),
    "a NUL and a delete": ("a\0b\x7f", r"a\x00b\x7f"),
    "backspaces": ("no\b\byes", r"no\x08\x08yes"),
    "a line that overwrites itself": ("failed\rwell", r"failed\x0dwell"),
    "a next line of C1": ("a\x85b", r"a\x85b"),
    "separators of lines": ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
    "an override from right to left": ("invoice\u202efdp.exe", r"invoice\u202efdp.exe"),
    "embeddings": ("\u202aa\u202bb\u202cc\u202d", r"\u202aa\u202bb\u202cc\u202d"),
    "isolates": ("\u2066a\u2067b\u2068c\u2069", r"\u2066a\u2067b\u2068c\u2069"),
    "a mark of direction": ("a\u200fb\u200ec\u061c", r"a\u200fb\u200ec\u061c"),
    "spaces without width": ("pay\u200bpal\u2060\ufeff", r"pay\u200bpal\u2060\ufeff"),
    "joiners in Latin and Cyrillic": ("ad\u200dmin, \u0430\u200cd", "ad\\u200dmin, \u0430\\u200cd"),
    "letters that are blank": ("a\u3164b\u115f\uffa0", r"a\u3164b\u115f\uffa0"),
    "text in tags": ("a\U000e0041\U000e0042", r"a\U000e0041\U000e0042"),
    "bytes in variation selectors": ("a\ufe00\U000e0100", r"a\ufe00\U000e0100"),
    "half a character": ("a\ud800", r"a\ud800"),
}
ORDINARY = [
    "plain, with\ta tab\nand lines\r\nof Windows",
    "Crème brûlée, Straße, e\u0301, Donau\u00addampf, non\u00a0breaking",
    "漢字 かな 한국어 葛\U000e0100城",
    "👩\u200d💻 👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 🇮🇹 👍🏽 ‼\ufe0f ©\ufe0f",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "السلام عليكم، می\u200cخواهم",
    "שלום\u200f!",
    "क\u094d\u200dष ශ\u0dca\u200dර",
    "ภาษา\u200bไทย",
    r"C:\x1b is text already",
]


@pytest.mark.parametrize(("text", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_what_steers_or_deceives_is_made_visible_also_in_json(text: str, expected: str) -> None:
    assert visible(text) == expected
    document = visible_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(document) == text
    assert visible(document) == document


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_a_visible_text_is_not_changed_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)


def test_a_line_has_no_other_lines() -> None:
    assert visible_line("a\r\nb\nc\r") == r"a\nb\nc\x0d"


@given(st.text(st.characters(codec="utf-8")))
def test_json_keeps_its_values_exactly(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False)
    assert json.loads(visible_json(document)) == {text: [text]}
