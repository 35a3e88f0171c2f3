"""The pages, read anew when the folder changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from models.documents import Matrix, PassageText, Vector
from models.errors import NotConfigured, StoreUnavailable
from models.hits import Hit, Ranking
from search.protocol import Search

_WORD = re.compile(r"\w+")


class WikiFolder:
    """Implements `search.protocol.Searches`, for every namespace the same."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder

    def search_text(self, namespace: str, texts: Sequence[str], search: Search) -> list[Ranking]:
        """By the number of words that question and page share.  Pages have no fields, so filters let none through."""
        pages = (
            []
            if search.filters
            else [page for page in self._pages() if page.document_id not in search.exclude_ids]
        )
        rankings = []
        for text in texts:
            question_words = _words(text)
            scored = ((len(question_words & _words(f"{page.title} {page.text}")), page) for page in pages)
            rankings.append(_ranking([(score, page) for score, page in scored if score], search.depth))
        return rankings

    def titled(self, text: str, *, depth: int) -> Ranking:
        pages = [page for page in self._pages() if page.title.casefold() in text.casefold()]
        return _ranking([(1, page) for page in pages], depth)

    def search_vectors(self, namespace: str, vectors: Matrix, search: Search) -> list[Ranking]:
        raise NotConfigured(f"the wiki {self._name!r} has no vectors")

    def vectors(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 10.0
    ) -> dict[str, Vector]:
        return {}

    def texts(
        self, namespace: str, passage_ids: Sequence[str], *, timeout_s: float = 0.5
    ) -> dict[str, PassageText]:
        requested_ids = set(passage_ids)
        return {page.passage_id: page for page in self._pages() if page.passage_id in requested_ids}

    def generation(self, namespace: str, *, timeout_s: float = 10.0) -> None:
        """Unknown: files change without a word, so answers with this branch are not cached."""

    def warm(self, namespace: str | None = None) -> None:
        return

    def _pages(self) -> list[PassageText]:
        try:
            files = sorted(self._folder.iterdir())
            return [self._page(file) for file in files if file.suffix == ".txt"]
        except OSError as error:
            raise StoreUnavailable(
                f"the wiki's folder {self._folder} cannot be read: {error.strerror}"
            ) from error

    def _page(self, file: Path) -> PassageText:
        title, _, text = file.read_text(encoding="utf-8").partition("\n")
        name = file.stem
        return PassageText(f"{name}#{self._name}", name, title, "", text.strip(), {})


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _ranking(scored: list[tuple[int, PassageText]], depth: int) -> Ranking:
    scored.sort(key=lambda one: (-one[0], one[1].passage_id))
    return Ranking(
        tuple(Hit(page.passage_id, page.document_id, float(score)) for score, page in scored[:depth]),
        len(scored),
    )
