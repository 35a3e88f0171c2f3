"""Store kinds, branch kinds and methods of packages: found by name, and imported only if a pipeline names them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assembly.kinds import BUILT_IN
from assembly.pipeline import load_pipeline
from config.declarations import Pipeline
from models.errors import WrongDeclaration
from tests.support.pipelines.outside_packages import importable, write_package

PIPELINE = """\
[stores.local]
kind = "embedded"

[stores.other]
kind = "shelf"
options = { depth = "3" }

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.titles]
kind = "titles"
group = "lexical"
store = "other"

[configurations.plain]
method = "mean"
"""
MODULE = """
from models.extensions import BranchKind, GeneratorKind, StoreKind
from models.fusion_method import Method
SHELF = StoreKind(lambda name, options: (name, options), options={"depth": None, "order": ("up", "down")}, writes=True)
READS = StoreKind(lambda name, options: 1 / 0)
TITLES = BranchKind(lambda part: [])
MEAN = Method("mean", lambda rankings, k: [], best=float, single_hit=float, all_equal=lambda k, rank: k)
TEXT = "no method"
"""
POINTS = {
    "stores": "shelf = good:SHELF\nreads = good:READS",
    "branch_kinds": "titles = good:TITLES",
    "methods": "mean = good:MEAN",
}

Declares = Callable[[str], Pipeline]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    write_package(folder, "good", MODULE, **POINTS)
    with importable(folder):
        yield folder


@pytest.fixture
def declares(tmp_path: Path) -> Declares:
    def read(text: str) -> Pipeline:
        file = tmp_path / "pipeline.toml"
        file.write_text(text)
        return load_pipeline(file)

    return read


def refusal(declares: Declares, text: str) -> str:
    with pytest.raises(WrongDeclaration) as raised:
        declares(text)
    return str(raised.value)


def test_a_pipeline_can_declare_kinds_and_methods_of_a_package(site: Path, declares: Declares) -> None:
    pipeline = declares(PIPELINE)
    assert pipeline.stores["other"].options == {"depth": "3"}
    assert [branch.kind for branch in pipeline.branches] == ["bm25", "titles"]
    assert pipeline.configurations["plain"].method == "mean"
    assert (pipeline.kinds.stores["shelf"].writes, list(pipeline.kinds.methods)) == (
        True,
        [*BUILT_IN.methods, "mean"],
    )


def test_a_package_that_no_pipeline_names_is_not_imported(site: Path, declares: Declares) -> None:
    write_package(site, "unnamed", "raise RuntimeError('imported')", stores="unnamed = unnamed:STORE")
    with importable(site):
        load_pipeline()
        assert "good" not in sys.modules
        declares(PIPELINE)
        assert "good" in sys.modules
        assert "unnamed" not in sys.modules


def test_the_error_for_an_unknown_kind_also_lists_the_kinds_of_packages(
    site: Path, declares: Declares
) -> None:
    said = refusal(declares, PIPELINE.replace('"shelf"', '"shell"'))
    assert ":5: stores.other.kind: no store kind 'shell'; there are: " in said
    assert "embedded" in said.rpartition("there are: ")[2]
    assert "shelf" in said.rpartition("there are: ")[2]


def test_options_are_checked_against_those_that_the_package_declares(site: Path, declares: Declares) -> None:
    said = refusal(declares, PIPELINE.replace('depth = "3"', 'depht = "3", order = "sideways"'))
    assert "no option of shelf 'depht'; there are: depth, order" in said
    assert "no order 'sideways'; there are: down, up" in said


def test_a_package_that_does_not_import_is_named(site: Path, declares: Declares) -> None:
    write_package(site, "broken-shelf", "import nowhere_to_be_found", stores="broken = broken_shelf:STORE")
    with importable(site):
        said = refusal(declares, PIPELINE.replace('"shelf"', '"broken"'))
    assert (
        ":5: stores.other.kind: store kind 'broken' of the package broken-shelf 1.0 cannot be imported"
        in said
    )
    assert "No module named 'nowhere_to_be_found'" in said


def test_an_object_of_the_wrong_class_is_named(site: Path, declares: Declares) -> None:
    write_package(site, "odd", "STORE = {}", stores="odd = odd:STORE")
    with importable(site):
        said = refusal(declares, PIPELINE.replace('"shelf"', '"odd"'))
    assert "store kind 'odd' of the package odd 1.0 is dict; under chorale.stores stands a " in said
    assert "models.extensions.StoreKind" in said


def test_a_package_cannot_take_a_built_in_name(site: Path, declares: Declares) -> None:
    write_package(site, "thief", MODULE, stores="embedded = thief:SHELF")
    with importable(site):
        said = refusal(declares, PIPELINE)
    assert (
        "store kind 'embedded' is claimed by Chorale itself and by thief 1.0: uninstall all but one" in said
    )


def test_a_name_that_two_packages_claim_is_refused(site: Path, declares: Declares) -> None:
    write_package(site, "second", MODULE, branch_kinds="titles = second:TITLES")
    with importable(site):
        said = refusal(declares, PIPELINE)
    assert "branch kind 'titles' is claimed by " in said
    assert {"good 1.0", "second 1.0"} <= set(said.split("claimed by ")[1].split(":")[0].split(" and by "))


def test_a_wrong_method_is_named_with_its_package(site: Path, declares: Declares) -> None:
    write_package(site, "odd", MODULE, methods="text = odd:TEXT\nmedian = odd:MEAN")
    with importable(site):
        said = refusal(declares, PIPELINE.replace('"mean"', '"text"'))
        assert (
            "configurations.plain.method: fusion method 'text' of the package odd 1.0 is str; under " in said
        )
        assert "chorale.methods stands a models.fusion_method.Method" in said
        said = refusal(declares, PIPELINE.replace('"mean"', '"median"'))
        assert "fusion method 'median' of the package odd 1.0 calls itself 'mean'" in said


def test_reading_one_declaration_changes_no_other(site: Path, declares: Declares) -> None:
    """A package's method is known to the pipeline that names it, and to no other."""
    assert "mean" in declares(PIPELINE).kinds.methods
    assert load_pipeline().kinds == BUILT_IN


def test_capabilities_follow_from_the_kinds(site: Path, declares: Declares) -> None:
    text = PIPELINE + '\n[stores.reads]\nkind = "reads"\n'
    assert declares(text).capabilities == (
        "local:read",
        "local:write",
        "other:read",
        "other:write",
        "reads:read",
    )


def test_a_branch_of_kind_http_asks_a_store_of_kind_http_and_no_other(declares: Declares) -> None:
    store = '[stores.wiki]\nkind = "http"\noptions = { url = "http://a/?q={question}", id = "id" }\n'
    branch = '[branches.wiki]\nkind = "KIND"\ngroup = "wiki"\nstore = "STORE"\n'
    local = '[stores.local]\nkind = "embedded"\n'
    assert declares(store + branch.replace("KIND", "http").replace("STORE", "wiki")).branches
    for kind, of in (("bm25", "wiki"), ("http", "local")):
        said = refusal(declares, store + local + branch.replace("KIND", kind).replace("STORE", of))
        assert "asks a store of kind 'http'" in said


def test_an_http_store_s_options_are_checked_when_it_is_declared(declares: Declares) -> None:
    said = refusal(
        declares,
        '[stores.wiki]\nkind = "http"\n[stores.wiki.options]\nurl = "http://a/"\nid = "id"\ntimeout_s = 900\n'
        '[branches.wiki]\nkind = "http"\ngroup = "wiki"\nstore = "wiki"\n',
    )
    assert ":6: stores.wiki.options.timeout_s: Input should be less than or equal to 60" in said
