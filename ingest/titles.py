"""Which titles name a document, and which were left in it by the program that made it."""

from __future__ import annotations

import re

_LEFT_BY_PROGRAMS = re.compile(
    r"""
    [\W_]*                                                     # no letter or digit at all
    | \W* (untitled|anonymous|unknown|no\s?title|none|null|title|unbenannt|ohne\ titel|sans\ titre|sin\ título
        |senza\ titolo|sem\ título|document|dokument|word[ ]document|presentation|slide|folie|book|workbook|sheet)
        ([\s_-]* (document|page|presentation|\d+))? \W*
    | (microsoft|ms|libreoffice|openoffice)\W? [ ] \w+ \s+ [-–—] .*    # "Microsoft Word - rules.docx"
    | power\s?point[ -] \w+ | \w+ ( \s \w+){0,2} \s powerpoint         # "PowerPoint Presentation" in any language
    | (.*[^\s.])? \. (docx?|docm|dotx?|rtf|odt|pages|wpd|hwp|pdf|ps|eps|dvi|fm|indd|qxd|qxp|pmd|p65|pub|cdr|ai
        |pptx?|pptm|ppsx?|potx?|odp|xlsx?|xlsm|xltx?|ods)              # a file's name
    """,
    re.IGNORECASE | re.VERBOSE,
)


def as_title(title: str) -> str:
    """The title on one line; empty if a program or a template gave it, or if it is a file's name."""
    line = " ".join(title.split())
    return "" if _LEFT_BY_PROGRAMS.fullmatch(line) else line
