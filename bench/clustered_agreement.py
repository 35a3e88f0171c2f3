"""Whether both profiles give the same documents: `python -m bench.clustered_agreement FOLDER [--home DIR]`.

A judged collection in the BEIR layout is embedded once and goes into the embedded store, into Elasticsearch, once
more into Elasticsearch with an analyser of the server's own, and into Weaviate.  Its questions are asked on both
sides by the same calls.  `--graph` lets Weaviate search by its graph alone, as it does in namespaces of more than
40,000 passages.  The servers are those of CHORALE_TEST_ELASTICSEARCH_URL and CHORALE_TEST_WEAVIATE_URL; what
was written there is deleted at the end, and `--home` keeps the vectors for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
from chorale_client.answer import Answer

from assembly.resources import Resources
from bench.agreement import overlap, rank_biased_overlap
from bench.collection import Collection, read_collection
from bench.evaluation import Run, batches, ranked_documents, request_of
from bench.metrics import measure
from bench.one_process import answer
from config.pipeline import load_pipeline
from config.settings import Settings
from ingest.read import read_documents
from tasks.indexing.namespace_writer import index_corpus

TOP = 10

_PIPELINE = """
default_configuration = "embedded"

[stores.local]
kind = "embedded"

[stores.texts]
kind = "elasticsearch"
options = {{ url = "{elasticsearch}", prefix = "{mark}" }}

# What a server without language analysers has: hunspell's stems, English stop words.
[stores.texts_by_server]
kind = "elasticsearch"
[stores.texts_by_server.options]
url = "{elasticsearch}"
prefix = "{mark}server"
[stores.texts_by_server.options.analyser]
analyzer = {{ chorale = {{ type = "custom", tokenizer = "standard", filter = ["lowercase", "stop", "stems"] }} }}
filter = {{ stems = {{ type = "hunspell", locale = "en_US" }} }}

[stores.vectors]
kind = "weaviate"
options = {{ url = "{weaviate}", grpc_port = {grpc_port}, collection = "{collection}", texts = false, flat_search_cutoff = {cutoff} }}

{branches}
"""
_BRANCH = """
[branches.{name}]
kind = "{kind}"
group = "{group}"
store = "{store}"
weight = {weight}
{options}
"""
_CONFIGURATION = """
[configurations.{name}]
method = "rrf"
k = 60
branches = [{branches}]
"""
PROFILES = {
    "embedded": {"bm25": "local", "vector": "local", "hyde": "local"},
    "clustered": {"bm25": "texts", "vector": "vectors", "hyde": "vectors"},
    "by_server": {"bm25": "texts_by_server"},
}
"""The store of each branch."""
_WEIGHTS = {"bm25": ("lexical", 0.3), "vector": ("dense", 0.4), "hyde": ("dense", 0.3)}
"""Group and weight, as shipped."""
COMPARED = {
    "fusion": ("embedded", "clustered", ("bm25", "vector", "hyde")),
    "bm25": ("embedded", "clustered", ("bm25",)),
    "vector": ("embedded", "clustered", ("vector",)),
    "hyde": ("embedded", "clustered", ("hyde",)),
    "bm25, the server's analyser": ("embedded", "by_server", ("bm25",)),
}


def declaration(mark: str, *, by_graph: bool) -> str:
    """The pipeline file; `mark` begins the names of what is made in the servers, whose addresses are in the environment."""
    parts = []
    for profile, stores in PROFILES.items():
        for kind, store in stores.items():
            group, weight = _WEIGHTS[kind]
            feedback = f'options = {{ feedback_store = "{stores["bm25"]}" }}' if kind == "hyde" else ""
            parts.append(
                _BRANCH.format(
                    name=f"{kind}_{profile}",
                    kind=kind,
                    group=group,
                    store=store,
                    weight=weight,
                    options=feedback,
                )
            )
        names = ", ".join(f'"{kind}_{profile}"' for kind in stores)
        parts.append(_CONFIGURATION.format(name=profile, branches=names))
    return _PIPELINE.format(
        elasticsearch=os.environ["CHORALE_TEST_ELASTICSEARCH_URL"],
        weaviate=os.environ["CHORALE_TEST_WEAVIATE_URL"],
        grpc_port=os.environ.get("CHORALE_TEST_WEAVIATE_GRPC_PORT", "50051"),
        mark=mark,
        collection=mark.capitalize(),
        cutoff=0 if by_graph else 40_000,
        branches="".join(parts),
    )


def compare(resources: Resources, collection: Collection) -> list[dict[str, Any]]:
    """For each pair of COMPARED how much the rankings agree, over all questions, and how good both are."""

    def asked(profile: str, kinds: Sequence[str]) -> dict[str, list[str]]:
        names = tuple(f"{kind}_{profile}" for kind in kinds)
        run = Run(profile, profile, names, {names[0]: 1.0} if len(names) == 1 else None)
        return rankings(resources, collection, run)

    lines = []
    for name, (first, second, kinds) in COMPARED.items():
        one, other = asked(first, kinds), asked(second, kinds)
        pairs = [(one[question], other[question]) for question in collection.questions]
        lines.append(
            {
                "name": name,
                "overlap@10": round(fmean(overlap(*pair, TOP) for pair in pairs), 4),
                "rank_biased_overlap": round(fmean(rank_biased_overlap(*pair) for pair in pairs), 4),
                "same_first_ten": round(fmean(float(a[:TOP] == b[:TOP]) for a, b in pairs), 4),
                f"ndcg@10_{first}": _ndcg(collection, one),
                f"ndcg@10_{second}": _ndcg(collection, other),
            }
        )
    return lines


def rankings(resources: Resources, collection: Collection, run: Run) -> dict[str, list[str]]:
    """The documents of each question, best first, by question id."""
    found: dict[str, list[str]] = {}
    for ids in batches(collection.questions):
        request = request_of(run, collection.namespace, [collection.questions[id_] for id_ in ids])
        told = {"request_id": request.request_id, **answer(resources, request)}
        for question_id, question in zip(ids, Answer.from_wire(told).questions, strict=True):
            found[question_id] = ranked_documents(question)
    return found


def _ndcg(collection: Collection, found: Mapping[str, Sequence[str]]) -> float:
    return round(measure(collection.judgements, found)["ndcg@10"], 4)


def run(folder: Path, home: Path, *, questions: int | None = None, by_graph: bool = False) -> dict[str, Any]:
    """Index, compare, and leave nothing in the servers; raises what indexing and searching raise."""
    collection = read_collection(folder, "test").limited(questions)
    home.mkdir(parents=True, exist_ok=True)
    pipeline_file = home / "agreement.toml"
    mark = f"agree{uuid.uuid4().hex[:10]}"
    pipeline_file.write_text(declaration(mark, by_graph=by_graph))
    # Nothing is asked of a Redis: readers in this process alone need no generation.
    nowhere = f"unix://{home}/nobody.sock"
    resources = Resources(Settings(home=home), load_pipeline(pipeline_file), nowhere)
    store = resources.clustered
    try:
        if any(state.name == collection.namespace for state in store.namespaces()):
            store.verify(collection.namespace, mends=True)
        report = index_corpus(
            resources,
            read_documents([collection.corpus], source=collection.name, ids="given"),
            namespace=collection.namespace,
            source=collection.name,
            prune=True,
        )
        if report.unwritten:
            raise SystemExit(f"not in every store: {dict(list(report.unwritten.items())[:5])}")
        return {
            "v": 1,
            "collection": collection.name,
            "documents": report.added + report.replaced + report.unchanged,
            "questions": len(collection.questions),
            "compared": compare(resources, collection),
        }
    finally:
        for name in store.stores.keys() - {"local"}:
            store.stores[name].drop(collection.namespace)
        store.close()
        _sweep(mark)


def _sweep(mark: str) -> None:
    """Delete what outlives a namespace."""
    elasticsearch = os.environ["CHORALE_TEST_ELASTICSEARCH_URL"]
    weaviate = os.environ["CHORALE_TEST_WEAVIATE_URL"]
    for address in (
        *(f"{elasticsearch}/{prefix}.namespaces" for prefix in (mark, f"{mark}server")),
        *(f"{elasticsearch}/_index_template/{prefix}-namespaces" for prefix in (mark, f"{mark}server")),
        *(f"{weaviate}/v1/schema/{mark.capitalize()}{name}" for name in ("Passage", "Namespace")),
    ):
        httpx.delete(address, timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--home", type=Path, help="kept: the vectors are not made again")
    parser.add_argument("--questions", type=int)
    parser.add_argument("--graph", action="store_true", help="Weaviate searches by its graph alone")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chorale-bench-") as temporary:
        home = asked.home or Path(temporary)
        print(json.dumps(run(asked.folder, home, questions=asked.questions, by_graph=asked.graph)))


if __name__ == "__main__":
    main()
