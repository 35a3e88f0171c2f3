"""`bench.clustered_agreement` on a collection of thirty documents, against the real servers."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from bench.clustered_agreement import COMPARED, run
from tests.support.servers.services import need

WORDS = ("red", "green", "blue", "round", "square", "heavy", "light", "old", "new", "quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each document has three of the words, each question asks for two."""
    folder = tmp_path_factory.mktemp("collections") / "things"
    (folder / "qrels").mkdir(parents=True)
    documents = [
        {
            "_id": f"d{n}",
            "title": f"Thing {n}",
            "text": " ".join(WORDS[(n * step + 1) % 10] for step in (1, 3, 7)),
        }
        for n in range(30)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    questions = [{"_id": f"q{n}", "text": f"{WORDS[n]} and {WORDS[n + 4]}?"} for n in range(6)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    judged = [f"q{n}\td{n}\t1" for n in range(6)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


def test_both_profiles_give_the_same_documents_and_nothing_is_left_in_the_servers(
    folder: Path, tmp_path: Path
) -> None:
    elasticsearch = need("elasticsearch", "both profiles are compared on real servers")
    weaviate = need("weaviate", "both profiles are compared on real servers")
    found = run(folder, tmp_path)
    assert (found["collection"], found["documents"], found["questions"]) == ("things", 30, 6)
    lines = {line["name"]: line for line in found["compared"]}
    assert list(lines) == list(COMPARED)
    for name in ("fusion", "bm25", "vector", "hyde"):
        assert lines[name]["overlap@10"] == lines[name]["rank_biased_overlap"] == 1, lines[name]
        assert lines[name]["ndcg@10_embedded"] == lines[name]["ndcg@10_clustered"]
    # Other stems and stop words: the same documents, about.
    assert 0.5 < lines["bm25, the server's analyser"]["overlap@10"] <= 1
    named = httpx.get(f"{elasticsearch}/_cat/indices?h=index").text + httpx.get(f"{weaviate}/v1/schema").text
    assert "agree" not in named.lower()

    again = run(folder, tmp_path)
    assert again["compared"] == found["compared"]
