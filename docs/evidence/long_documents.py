"""How much should a whole document's BM25 score count?  `python -m docs.evidence.long_documents FOLDER PIECES [--language it]`.

FOLDER is a collection in the BEIR layout; its documents are split into passages of at most PIECES word pieces.  The script adds parts of
the whole document's score to that of its best passage, and compares them with the best passage alone.  It looks at every passage
and document, and needs no vectors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
from models.documents import Document, Manifest
from search.analysis import indexed_texts, question_terms
from search.engines.embedded.lexical_index import (
    LexicalIndex,
    LexicalSearcher,
    any_term,
    create_index,
    write_index,
)

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, inf)
"""Of the whole document beside its best passage; `inf` is the whole document alone."""


def documents_of(corpus: Path, pieces: int) -> Iterator[Document]:
    encoder = OnnxEmbedder(load_settings().embedder, threads=1)
    splitter = Splitter(encoder.count_pieces, max_pieces=pieces)
    for line in corpus.read_text("utf-8").splitlines():
        row = json.loads(line)
        raw = RawDocument(row["_id"], "corpus", row.get("title") or "", row["text"])
        yield Document(raw.document_id, raw.source, raw.title, splitter.split(raw))


def searcher_of(texts: Sequence[tuple[str, str]], folder: Path) -> LexicalSearcher:
    create_index(folder)
    write_index(folder, delete=(), add=enumerate(text for _, text in texts))
    return LexicalIndex(folder).reloaded()


def rankings(
    passages: Sequence[tuple[str, str]],
    whole: Sequence[tuple[str, str]],
    questions: Mapping[str, str],
    language: str,
) -> Iterator[tuple[str, float, list[str]]]:
    """Question id, weight, and the first documents.  Passages and whole documents have their document's id, and terms."""
    with TemporaryDirectory() as folder:
        of_passages = searcher_of(passages, Path(folder) / "passages")
        of_whole = searcher_of(whole, Path(folder) / "whole")
        for id_, text in questions.items():
            query = any_term(question_terms(text, language))
            best: dict[str, float] = defaultdict(float)
            for rid, score in zip(*of_passages.best(query, len(passages) + 1), strict=True):
                best[passages[rid][0]] = max(best[passages[rid][0]], score)
            found = zip(*of_whole.best(query, len(whole) + 1), strict=True)
            all_of = {whole[rid][0]: score for rid, score in found}
            for weight in WEIGHTS:
                scores = {
                    name: all_of[name] if weight == inf else score + weight * all_of[name]
                    for name, score in best.items()
                }
                yield id_, weight, sorted(scores, key=lambda name: (-scores[name], name))[:DEPTH]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("pieces", type=int)
    parser.add_argument("--language", default="en")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    collection = read_collection(given.folder, "test").limited(given.limit)
    manifest = Manifest("", given.language, "", "", 0)
    passages: list[tuple[str, str]] = []
    whole: list[tuple[str, str]] = []
    for document in documents_of(collection.corpus, given.pieces):
        texts = indexed_texts(document, manifest)
        passages += [(document.document_id, text) for text in texts.passages]
        whole.append((document.document_id, texts.document))
    values: dict[float, list[float]] = defaultdict(list)
    for id_, weight, documents in rankings(passages, whole, collection.questions, given.language):
        values[weight].append(ndcg(documents, collection.judgements[id_]))
    sys.stdout.write(f"{len(passages) / len(whole):.1f} passages a document, {len(values[0])} questions\n")
    for weight, each in values.items():
        gain = paired_gain(each, values[0])
        sys.stdout.write(
            f"{weight}: {mean(each):.4f}, {gain.mean:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]\n"
        )


if __name__ == "__main__":
    main()
