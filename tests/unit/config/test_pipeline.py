"""The pipeline declaration: the embedded default, own files, and every mistake in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from config.pipeline_reader import DEFAULT_FILE, declared_queues
from models.boost_plan import BoostPlan
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tests.support.pipelines.pipeline_files import LOCAL, Declares

SMALLEST = """\
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"
"""


def test_without_a_file_the_embedded_pipeline_is_declared() -> None:
    pipeline = load_pipeline()
    assert [(b.name, b.kind, b.group, b.store, b.weight) for b in pipeline.branches] == [
        ("bm25", "bm25", "lexical", "local", 0.3),
        ("vector", "vector", "dense", "local", 0.4),
        ("hyde", "hyde", "dense", "local", 0.3),
    ]
    assert pipeline.branches[2].options == {"generator": "feedback"}
    assert pipeline.stores["local"].kind == "embedded"
    assert pipeline.default_configuration == "rrf"
    assert pipeline.configurations["rrf"].k == 60
    assert pipeline.configurations["rrf-grouped"].method == "rrf-grouped"
    assert pipeline.configurations["rrf-grouped"].k == 10
    names = ("retrieve", "bm25", "vector", "hyde", "fusion", "index", "bulk")
    assert pipeline.queues == tuple(f"chorale.{name}" for name in names)
    opensearch = load_pipeline(DEFAULT_FILE.with_name("opensearch.toml"))
    assert {store.kind for store in opensearch.stores.values()} == {"opensearch"}
    clustered = load_pipeline(DEFAULT_FILE.with_name("clustered.toml"))
    assert clustered.configurations == pipeline.configurations, "it offers what the default one does"
    assert clustered.default_configuration == pipeline.default_configuration


def test_a_field_has_a_closed_list_of_values_in_its_namespaces(declares: Declares) -> None:
    declared = declares(
        SMALLEST
        + '[fields.domain]\nvalues = ["tax", "cars"]\nnamespaces = ["farm"]\n[fields."law.kind"]\nvalues = ["act"]\n'
    )
    assert declared.closed_values("farm") == {"domain": ("tax", "cars"), "law.kind": ("act",)}
    assert declared.closed_values("other") == {"law.kind": ("act",)}
    for wrong in ("values = []", "values = [2]", ""):
        with pytest.raises(WrongDeclaration, match=r"fields\.domain\.values"):
            declares(f"{SMALLEST}[fields.domain]\n{wrong}\n")


def test_the_smallest_file_gets_plain_rrf_over_its_branches(declares: Declares) -> None:
    pipeline = declares(SMALLEST)
    branch = pipeline.branches[0]
    assert (branch.queue, branch.weight, branch.depth, branch.limit_s) == ("chorale.bm25", 1.0, 1_000, None)
    assert pipeline.default_configuration == "rrf"
    assert pipeline.configurations["rrf"].method == "rrf"


def test_a_configuration_has_weights_of_its_own(declares: Declares) -> None:
    pipeline = declares(
        SMALLEST + '[configurations.heavy]\nmethod = "rrf"\nweights = { bm25 = 2 }\nfold = false\n'
    )
    heavy = pipeline.configurations[pipeline.default_configuration]
    assert not heavy.fold
    assert [branch.weight for branch in pipeline.branches_of(heavy)] == [2.0]
    assert pipeline.branches[0].weight == 1.0


def test_own_boosts_are_bounded_and_a_shipped_preset_can_be_named_from_any_file(declares: Declares) -> None:
    own = '[configurations.a]\nmethod = "rrf"\nboosts = "mine"\n[boosts.mine]\nauthority = { faq = 2 }\n'
    shipped = '[configurations.law]\nmethod = "rrf"\nboosts = "italian-law"\n'
    configurations = declares(SMALLEST + own + shipped).configurations
    assert configurations["a"].boosts == BoostPlan(authority={"faq": 2.0}, max_places=5)
    boosts = configurations["law"].boosts
    assert boosts == load_pipeline().configurations["italian-law"].boosts
    assert boosts is not None
    assert boosts.max_places is None, "plain factors, without a bound"


def test_a_reranker_is_declared_once_and_chosen_by_configurations(declares: Declares) -> None:
    pipeline = declares(
        SMALLEST
        + '[rerankers.small]\nmodel = "some/model"\ndepth = 20\n[rerankers.unused]\nmodel = "other"\n'
        '[configurations.best]\nmethod = "rrf"\nreranker = "small"\n'
        '[configurations.plain]\nmethod = "rrf"\n'
    )
    best = pipeline.configurations["best"].reranker
    assert best is not None
    assert (best.name, best.model, best.depth, best.coarse) == ("small", "some/model", 20, 100)
    assert (best.weight, best.backend, best.device, best.precision) == (0.7, "onnx", None, "fp32")
    assert (best.max_pieces, best.budget_ms) == (128, 400)
    assert pipeline.configurations["plain"].reranker is None
    assert pipeline.rerankers == {"small": best}, "what no configuration uses is never loaded"
    assert load_pipeline().rerankers == {}, "off by default"


STORE = 'store = "local"'
AFTER_THE_STORE = {
    "a misspelt field": ("wieght = 1", "wieght", "weight, depth"),
    "a weight below 0": ("weight = -1", "greater than or equal to 0"),
    "a limit above a minute": ("limit_s = 61", "limit_s", "60"),
    "a name in the table": ('name = "x"', "the name is that of the table"),
    "a queue that is not ours": ('queue = "q"', "chorale"),
    "a queue that is not a branch's": ('queue = "chorale.index"', "chorale.index"),
    "an option of no kind": ("options = { a = 1 }", "options.a", "expansion"),
    "two branches of one name": ("[branches.bm25]", "twice"),
}
KINDS = "bm25, document, graph, http, hybrid, hyde, vector"
WRONG = {
    "a kind that is none": ('kind = "bm25"', 'kind = "bm52"', 5, "'bm52'", KINDS),
    "a store of no kind": ('"embedded"', '"elastic"', 2, "'elastic'", "embedded"),
    "a branch on a store that is none": (STORE, 'store = "locl"', 7, "'locl'", "local"),
    "a branch without a store": (f"{STORE}\n", "", 4, "needs a store", "local"),
    "a branch without a group": ('group = "lexical"\n', "", 4, "group", "required"),
    "a reserved name": ("[branches.bm25]", "[branches.fusion]", 4, "fusion, index, retrieve"),
    "a name of 33 letters": ("[branches.bm25]", f"[branches.{'b' * 33}]", 4, "[a-z][a-z0-9_]{0,31}"),
    "no TOML": (STORE, "store =", 7, "not valid TOML"),
    "an unknown table": ("[stores.local]", "[store.local]", 1, "unknown field", "stores, branches"),
    **{name: (STORE, f"{STORE}\n{line}", 8, *says) for name, (line, *says) in AFTER_THE_STORE.items()},
}


def refusal(declares: Declares, text: str) -> list[str]:
    with pytest.raises(WrongDeclaration) as error:
        declares(text)
    return str(error.value).splitlines()


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_wrong_branch_or_store_is_named_by_its_line(case: tuple[Any, ...], declares: Declares) -> None:
    before, after, line, *says = case
    assert before in SMALLEST
    complaints = refusal(declares, SMALLEST.replace(before, after))
    assert f"pipeline.toml:{line}: " in complaints[0]
    for words in says:
        assert words in "\n".join(complaints)


RERANKER = '[rerankers.small]\nmodel = "some/model"\n'
MINE = '[configurations.mine]\nmethod = "rrf"\n'
FAR = '[stores.far]\nkind = "elasticsearch"\n[stores.far.options]\n'
HTTP = '[stores.far]\nkind = "http"\n[stores.far.options]\nurl = "http://a/{question}"\n'
NEW = '[branches.new]\ngroup = "g"\nstore = "local"\n'
METHODS = ", ".join(sorted(BUILT_IN.methods))
ADDED = {
    "rerankers.small": [
        (RERANKER + "depth = 200", 8, "coarse: 100 is less than depth, which is 200"),
        (RERANKER + "batch = 10", 8, "batch: only the backend endpoint has one"),
        (RERANKER + 'device = "mps"', 8, "the backend onnx runs on cpu and cuda, not on mps"),
        (RERANKER + 'backend = "onxn"', 10, "'onnx', 'sentence_transformers' or 'endpoint'"),
        (RERANKER + 'device = "gpu"', 10, "cpu|mps|cuda"),
        (RERANKER + "budget = 3", 10, "unknown field; there are: model, revision, backend"),
    ],
    "configurations.mine": [
        (RERANKER + MINE + 'reranker = "large"', 12, "no reranker 'large'; there are: small"),
        (MINE.replace("rrf", "rff"), 9, f"no fusion method 'rff'; there are: {METHODS}"),
        (MINE + 'branches = ["vector"]', 10, "no branch 'vector'; there are: bm25"),
        (MINE + "branches = []", 10, "at least 1"),
        (MINE + "weights = { vector = 1 }", 10, "no branch 'vector'; there are: bm25"),
        (MINE + "weights = { bm25 = 0 }", 8, "every weight is 0"),
        (MINE + "weights_by_type = { long = { bm25 = 0 } }", 10, "every weight is 0"),
        (MINE + "weights_by_type = { long = { vector = 1 } }", 10, "no branch 'vector'"),
        (MINE + "weights_by_type = { short = { bm25 = 1 } }", 10, "'identifier', 'keyword'"),
        (MINE + 'boosts = "none"', 10, "no boosts 'none'; there are: italian-law"),
        ("[configurations.mine]\nk = 1", 8, "method: Field required"),
    ],
    "boosts.mine": [
        ("[boosts.mine]\nrecency_amont = 1", 9, "unknown field; there are: authority, recency_amount")
    ],
    "stores.far.options": [
        (FAR + 'url = ["http://a:9200", "b"]', 11, ".url.1: an address has a scheme, a host"),
        (HTTP, 10, ".id: Field required"),
        (HTTP + "id = []", 12, ".id: List should have at least 1 item"),
        (HTTP + 'id = "id"\nparams = { a = [1] }', 13, "or a valid boolean"),
    ],
    "branches.new": [
        (NEW + 'kind = "document"\noptions = { order_by = "source" }', 12, "'source' is no metadata"),
        (NEW + 'kind = "document"\noptions = { order_by = "document_id" }', 12, "is no metadata"),
        (NEW + 'kind = "hyde"\noptions = { generator = "oracle" }', 12, "no generator 'oracle'"),
    ],
}


@pytest.mark.parametrize(
    ("text", "line", "table", "says"),
    [(text, line, table, says) for table, cases in ADDED.items() for text, line, says in cases],
)
def test_a_wrong_table_has_one_complaint_with_its_line_and_the_choices(
    text: str, line: int, table: str, says: str, declares: Declares
) -> None:
    (complaint,) = refusal(declares, f"{SMALLEST}{text}\n")
    assert f"pipeline.toml:{line}: {table}" in complaint
    assert says in complaint


def test_a_pipeline_needs_a_branch_and_a_default_configuration_that_it_declares(declares: Declares) -> None:
    (complaint,) = refusal(declares, 'default_configuration = "x"\n' + SMALLEST)
    assert ":1: default_configuration: no configuration 'x'; there are: rrf" in complaint
    assert "no branch is declared" in str(refusal(declares, LOCAL))


def test_all_mistakes_are_reported_together_in_line_order(declares: Declares) -> None:
    text = SMALLEST.replace('"embedded"', '"x"').replace('"bm25"', '"y"').replace('"local"', '"z"')
    lines = [int(complaint.split(":")[1]) for complaint in refusal(declares, text)]
    assert lines == [2, 5, 7]


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_an_unreadable_file_is_named_and_a_byte_order_mark_is_read(
    content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(WrongDeclaration, match=r"pipeline\.toml: the pipeline file cannot be read"):
        load_pipeline(file)
    file.write_text("\ufeff" + DEFAULT_FILE.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_pipeline(file) == load_pipeline()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "KeyError('branches')"),
        ("branches = 1", "AttributeError"),
        ('[branches.bm25]\nqueue = ["a"]', "TypeError"),
        ("[branches", "WrongSyntax"),
    ],
)
def test_queues_are_read_from_no_malformed_file(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(WrongDeclaration, match=re.escape(f"the pipeline file cannot be read: {why}")):
        declared_queues(tmp_path / "pipeline.toml")
