"""Which titles name a document, and which were left in it by the program or template that made it."""

from __future__ import annotations

import re

_LEFT_BY_PROGRAMS = re.compile(
    r"""
    [\W_]*                                                     # no letter or digit at all
    | \W* (untitled|anonymous|unknown|no\s?(slide\s)?title|none|null|unbenannt|ohne\ titel|kein\ folientitel|sans\ titre
        |sin\ título|senza\ titolo|sem\ título|naamloos|bez\ tytułu|без\ (имени|названия)|無題|无标题|無標題|제목\ 없음
        |word[ ]document|template|slide|folie|diapositi[vb][ae]|слайд|スライド|幻灯片|슬라이드|new\ (page|document)
        |do[ck]ument[o]?|документ|文档|文書|presentation|präsentation|présentation|presentación|presentazione
        |apresentação|презентация|プレゼンテーション|演示文稿|book|工作簿|workbook|sheet)
        ([\s_-]* (document|page|presentation|\d+))? \W*
    | (arbeits)?mappe\d+ | (classeur|libro|cartel|pasta|книга)\d+      # "Book1" in other languages
    | \W* ((please|click|here|to|add|edit|enter|insert|type|your|the|a|master|main|sample|slide|document|paper|article|report
        |manuscript|conference|presentation|page|project|book) \s)*
        title (\s (goes|style|text|here|of|the|a|your|document|paper|article|report|manuscript|presentation|page|project|\d+))* \W*
    | .* \( use\ style\b .* | lorem\ ipsum\b .*                # "Paper Title (use style: paper title)"
    | (microsoft|ms|libreoffice|openoffice)\W? [ ] \w+ \s+ [-–—] .*    # "Microsoft Word - rules.docx"
    | power\s?point[ -] \w+ | \w+ ( \s \w+){0,2} \s powerpoint         # "PowerPoint Presentation" in any language
    | ([a-z]:|\\)\\ .* | file:/ .*                             # a path
    | (.*[^\s.])? \. (docx?|docm|dotx?|rtf|odt|pages|wpd|hwp|pdf|ps|eps|dvi|fm|indd|qxd|qxp|pmd|p65|pub|cdr|ai
        |pptx?|pptm|ppsx?|potx?|odp|xlsx?|xlsm|xltx?|ods)              # a file's name
    """,
    re.IGNORECASE | re.VERBOSE,
)


def as_title(title: str) -> str:
    """The title on one line; empty if a program or a template gave it, or if it is a file's name."""
    line = " ".join(title.split())
    return "" if _LEFT_BY_PROGRAMS.fullmatch(line) else line
