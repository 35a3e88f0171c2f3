"""Draws a smaller collection: `python -m docs.evidence.sampled_collection FOLDER QUESTIONS DOCUMENTS OUT`.

FOLDER and OUT are collections in the BEIR layout.  OUT gets QUESTIONS of the test split, their relevant documents, and others up to
DOCUMENTS.  All are drawn at random, and the same arguments draw the same ones.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from pathlib import Path

_JUDGEMENTS = "qrels/test.tsv"


def _rows(path: Path) -> dict[str, str]:
    """The lines of a file by their id."""
    return {json.loads(line)["_id"]: line for line in path.read_text("utf-8").splitlines()}


def sample(folder: Path, questions: int, documents: int, out: Path) -> str:
    """Writes the collection `out`, and says what it holds."""
    with (folder / _JUDGEMENTS).open(encoding="utf-8") as lines:
        head, *judged = csv.reader(lines, delimiter="\t")
    chance = random.Random(1)
    question_ids = sorted({question for question, *_ in judged})
    chosen = set(chance.sample(question_ids, questions) if questions < len(question_ids) else question_ids)
    judged = [row for row in judged if row[0] in chosen]
    relevant = {row[1] for row in judged}
    corpus = _rows(folder / "corpus.jsonl")
    others = [id_ for id_ in corpus if id_ not in relevant]
    document_ids = relevant | set(chance.sample(others, documents - len(relevant)))
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows, ids in (
        ("corpus", corpus, document_ids),
        ("queries", _rows(folder / "queries.jsonl"), chosen),
    ):
        text = "".join(f"{line}\n" for id_, line in rows.items() if id_ in ids)
        (out / f"{name}.jsonl").write_text(text, "utf-8")
    (out / _JUDGEMENTS).write_text("".join("\t".join(row) + "\n" for row in [head, *judged]), "utf-8")
    return f"{len(chosen)} questions, {len(relevant)} relevant documents of {len(document_ids)}"


def main() -> None:
    folder, questions, documents, out = sys.argv[1:]
    sys.stdout.write(f"{sample(Path(folder), int(questions), int(documents), Path(out))}\n")


if __name__ == "__main__":
    main()
