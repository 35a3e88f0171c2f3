"""How should BM25 score a document of several passages?  `python -m docs.evidence.long_documents FOLDER PIECES [--language it]`.

FOLDER is a collection in the BEIR layout; its documents are split into passages of at most PIECES word pieces.  The script compares the
best passage, which is what the stores take, with sums over the passages of a document and with BM25 of whole documents.  It looks
at every passage and document, and needs no vectors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from config.settings import load_settings
from evaluation.collection import read_collection
from evaluation.metrics import DEPTH, ndcg, paired_gain
from inference.embedders import OnnxEmbedder
from ingest.raw_documents import RawDocument
from ingest.split import Splitter
from search.analysis import question_terms, terms
from search.engines.embedded.lexical_index import (
    LexicalIndex,
    LexicalSearcher,
    any_term,
    create_index,
    write_index,
)

Texts = list[tuple[str, str]]
"""(document id, text with its title twice) of each passage or document."""
BEST = "best passage"
WAYS: Mapping[str, Callable[[list[float], float], float]] = {
    BEST: lambda passages, whole: passages[0],
    "the others at .1, .01, …": lambda passages, whole: sum(
        score * 0.1**n for n, score in enumerate(passages)
    ),
    "the others at .2, .04, …": lambda passages, whole: sum(
        score * 0.2**n for n, score in enumerate(passages)
    ),
    "the second at .2": lambda passages, whole: passages[0] + 0.2 * sum(passages[1:2]),
    "whole document": lambda passages, whole: whole,
    "best passage and half of the whole": lambda passages, whole: passages[0] + whole / 2,
}
"""Ways to score a document by the scores of its passages, best first, and by that of the whole document."""


def texts_of(corpus: Path, pieces: int) -> tuple[Texts, Texts]:
    """The passages, and the whole documents."""
    encoder = OnnxEmbedder(load_settings().embedder, threads=1)
    splitter = Splitter(encoder.count_pieces, max_pieces=pieces)
    passages: Texts = []
    whole: Texts = []
    for line in corpus.read_text("utf-8").splitlines():
        row = json.loads(line)
        document = RawDocument(row["_id"], "corpus", row.get("title") or "", row["text"])
        titles = f"{document.title}\n" * 2
        whole.append((document.document_id, titles + document.text))
        passages += [
            (document.document_id, f"{titles}{passage.heading}\n{passage.text}")
            for passage in splitter.passages(document)
        ]
    return passages, whole


def searcher_of(texts: Texts, folder: Path, language: str) -> LexicalSearcher:
    create_index(folder)
    write_index(folder, delete=(), add=enumerate(" ".join(terms(text, language)) for _, text in texts))
    return LexicalIndex(folder).reloaded()


def rankings(
    passages: Texts, whole: Texts, questions: Mapping[str, str], language: str
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Question id, and the first documents by each of the WAYS."""
    with TemporaryDirectory() as folder:
        of_passages, of_whole = (
            searcher_of(texts, Path(folder) / name, language)
            for name, texts in (("passages", passages), ("whole", whole))
        )
        for id_, text in questions.items():
            query = any_term(question_terms(text, language))
            scores: dict[str, list[float]] = defaultdict(list)
            for rid, score in zip(*of_passages.best(query, len(passages) + 1), strict=True):
                scores[passages[rid][0]].append(score)
            all_of = {
                whole[rid][0]: score for rid, score in zip(*of_whole.best(query, len(whole) + 1), strict=True)
            }
            yield (
                id_,
                {
                    name: sorted(
                        scores,
                        key=lambda id_: (-way(sorted(scores[id_], reverse=True), all_of.get(id_, -inf)), id_),
                    )[:DEPTH]
                    for name, way in WAYS.items()
                },
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("pieces", type=int)
    parser.add_argument("--language", default="en")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    collection = read_collection(given.folder, "test").limited(given.limit)
    passages, whole = texts_of(collection.corpus, given.pieces)
    values: dict[str, list[float]] = defaultdict(list)
    for id_, ranking in rankings(passages, whole, collection.questions, given.language):
        for name, documents in ranking.items():
            values[name].append(ndcg(documents, collection.judgements[id_]))
    sys.stdout.write(f"{len(passages) / len(whole):.1f} passages a document, {len(values[BEST])} questions\n")
    for name, each in values.items():
        gain = paired_gain(each, values[BEST])
        sys.stdout.write(f"{name}: {mean(each):.4f}, {gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]\n")


if __name__ == "__main__":
    main()
