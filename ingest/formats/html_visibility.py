"""What a person sees of an HTML page: neither comments and scripts nor text that is hidden."""

from __future__ import annotations

import re

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import Declaration, ProcessingInstruction
from soupsieve import SelectorSyntaxError

from ingest.raw_documents import Unreadable
from models.not_indexed import NotIndexed

_DROPPED = re.compile(
    "head|title|script|style|template|noscript|svg|iframe|object|audio|video|canvas|datalist|rt|rp"
)
"""What no browser shows, and what stands beside the text: the reading of ruby characters, and marks of links to a heading."""
_UNSEEN = (Comment, Declaration, ProcessingInstruction)
"""Comments, `<![if IE]>` and `<?xml ...?>`."""
_HEADING = re.compile("^h[1-6]$")

_SEEN = "html, body, :has(h1, main, math)"
"""What hides these is a picture of a formula, a window in front of the page, or a page that only a script shows."""
_STYLE_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_CONDITIONAL = re.compile(r"@[^@{};]*+(?:;|\{(?:[^{}]*\{[^{}]*\})*[^{}]*\})")
"""`@import ...;` and rules of a condition such as `@media print`."""
_RULE = re.compile(r"(?<![^{}])([^{}]++)\{([^{}]*+)\}")
_MOST_RULES_TIMES_TAGS = 1_000_000
"""Three seconds of work for the simplest rule.  Skipped rules would let hidden text in."""
_ZERO = re.compile(r"0*\.?0+[a-z%]*")
_FAR_OUTSIDE = re.compile(r"-\d{3,}")


def leave_out(page: BeautifulSoup, *, hidden_text: bool) -> bool:
    """Remove what a person does not see, unless `hidden_text` keeps it; whether that had words.

    The page's own styles count, except for those with a condition; other files are not read.
    """
    tags = page.find_all(True)
    hidden = [] if hidden_text else [*filter(_is_hidden, tags), *_hidden_by_rule(page)]
    dropped = [
        tag for tag in tags if _DROPPED.fullmatch(tag.name) or "headerlink" in (tag.get("class") or ())
    ]
    # `decomposed` is slow: it searches the content of a tag that is there.
    for tag in dropped:
        if not tag.decomposed:
            tag.decompose()
    for unseen in page.find_all(string=lambda text: isinstance(text, _UNSEEN)):
        unseen.extract()
    for tag in page.find_all(_HEADING):
        if not tag.get_text(strip=True):
            tag.decompose()
    hidden = [tag for tag in hidden if not tag.decomposed and not tag.css.match(_SEEN)]
    had_words = any(character.isalnum() for tag in hidden for character in tag.get_text())
    for tag in hidden:
        tag.decompose()
    return had_words


def _is_hidden(tag: Tag) -> bool:
    """Whether the attributes of the tag hide it.  Panels of tabs and `hidden="until-found"` do not count as hidden."""
    if "hidden" in tag.attrs and tag["hidden"] != "until-found" and tag.get("role") != "tabpanel":
        return True
    return tag.get("aria-hidden") == "true" or ("style" in tag.attrs and _hides(_style(str(tag["style"]))))


def _hidden_by_rule(page: BeautifulSoup) -> list[Tag]:
    """A later rule that shows a tag stands before an earlier one that hides it."""
    sheets = "\n".join(sheet.get_text() for sheet in page.select("style:not(noscript style)"))
    hidden: list[Tag] = []
    budget, tags = _MOST_RULES_TIMES_TAGS, len(page.find_all(True))
    for selector, declarations in _RULE.findall(_CONDITIONAL.sub("", _STYLE_COMMENT.sub("", sheets))):
        style = _style(declarations)
        hides = _hides(style)
        if not hides and not style.keys() & {"display", "visibility", "opacity", "font-size"}:
            continue
        if (budget := budget - (tags if hides else len(hidden))) < 0:
            why = f"its styles have more rules that hide, times its {tags:,} tags, than {_MOST_RULES_TIMES_TAGS:,}"
            raise Unreadable(NotIndexed.OVER_LIMIT, why)
        try:
            if hides:
                hidden += page.select(selector.strip())
            else:
                hidden = [tag for tag in hidden if not tag.css.match(selector.strip())]
        except (SelectorSyntaxError, NotImplementedError):
            continue
    return hidden


def _style(declarations: str) -> dict[str, str]:
    plain = "".join(declarations.lower().replace("!important", "").split())
    return dict(part.split(":", 1) for part in plain.split(";") if ":" in part)


def _hides(style: dict[str, str]) -> bool:
    colour = style.get("color")
    return (
        style.get("display") == "none"
        or style.get("visibility") in ("hidden", "collapse")
        or any(_ZERO.fullmatch(style.get(name, "")) for name in ("opacity", "font-size"))
        or any(
            _FAR_OUTSIDE.match(style.get(name, "")) for name in ("left", "top", "text-indent", "margin-left")
        )
        or (colour is not None and colour in (style.get("background"), style.get("background-color")))
    )
