"""Store kinds, branch kinds and methods of packages: found by name, and imported only if a pipeline names them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import WrongDeclaration
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tests.support.pipelines.outside_packages import importable, write_package
from tests.support.pipelines.pipeline_files import LOCAL, Declares

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
from models.declarations.extensions import BranchKind, GeneratorKind, StoreKind
from models.declarations.fusion_method import Method
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


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    write_package(folder, "good", MODULE, **POINTS)
    with importable(folder):
        yield folder


def refusal(declares: Declares, text: str) -> str:
    with pytest.raises(WrongDeclaration) as raised:
        declares(text)
    return str(raised.value)


WRONG_KINDS = {
    "a kind that nobody has": (
        "shell",
        "",
        "",
        ":5: stores.other.kind: no store kind 'shell'; there are: .*shelf",
    ),
    "a package that does not import": (
        "broken",
        "broken = odd:STORE",
        "import nowhere_to_be_found",
        ":5: stores.other.kind: store kind 'broken' of the package odd 1.0 cannot be imported.*nowhere_to_be_found",
    ),
    "an object of another class": (
        "odd",
        "odd = odd:STORE",
        "STORE = {}",
        "store kind 'odd' of the package odd 1.0 is dict; an entry point of chorale.stores must be a models.declarations.extensions.StoreKind",
    ),
    "a built-in name": (
        "shelf",
        "embedded = odd:SHELF",
        MODULE,
        "store kind 'embedded' is claimed by Chorale itself and by odd 1.0: uninstall all but one",
    ),
}


@pytest.mark.parametrize(("kind", "stores", "module", "says"), WRONG_KINDS.values(), ids=WRONG_KINDS)
def test_a_kind_that_cannot_be_used_is_named_with_its_package(
    kind: str, stores: str, module: str, says: str, site: Path, declares: Declares
) -> None:
    write_package(site, "odd", module, stores=stores)
    with importable(site):
        assert re.search(says, refusal(declares, PIPELINE.replace('"shelf"', f'"{kind}"')), re.DOTALL)


def test_a_name_that_two_packages_claim_is_refused(site: Path, declares: Declares) -> None:
    write_package(site, "second", MODULE, branch_kinds="titles = second:TITLES")
    with importable(site):
        complaint = refusal(declares, PIPELINE)
    claimed_by = complaint.split("branch kind 'titles' is claimed by ")[1].split(":")[0]
    assert {*claimed_by.split(" and by ")} == {"good 1.0", "second 1.0"}


def test_a_pipeline_can_declare_kinds_and_methods_of_a_package(site: Path, declares: Declares) -> None:
    pipeline = declares(PIPELINE)
    assert pipeline.stores["other"].options == {"depth": "3"}
    assert [branch.kind for branch in pipeline.branches] == ["bm25", "titles"]
    assert pipeline.configurations["plain"].method == "mean"
    assert pipeline.kinds.stores["shelf"].writes
    assert list(pipeline.kinds.methods) == [*BUILT_IN.methods, "mean"]
    assert load_pipeline().kinds == BUILT_IN, "no other pipeline knows them"


def test_a_package_that_no_pipeline_names_is_not_imported(site: Path, declares: Declares) -> None:
    write_package(site, "unnamed", "raise RuntimeError('imported')", stores="unnamed = unnamed:STORE")
    with importable(site):
        load_pipeline()
        assert "good" not in sys.modules
        declares(PIPELINE)
        assert "good" in sys.modules
        assert "unnamed" not in sys.modules


def test_options_are_checked_against_those_that_the_package_declares(site: Path, declares: Declares) -> None:
    complaint = refusal(declares, PIPELINE.replace('depth = "3"', 'depht = "3", order = "sideways"'))
    assert "no option of shelf 'depht'; there are: depth, order" in complaint
    assert "no order 'sideways'; there are: down, up" in complaint


def test_a_wrong_method_is_named_with_its_package(site: Path, declares: Declares) -> None:
    write_package(site, "odd", MODULE, methods="text = odd:TEXT\nmedian = odd:MEAN")
    with importable(site):
        text_refusal = refusal(declares, PIPELINE.replace('"mean"', '"text"'))
        median_refusal = refusal(declares, PIPELINE.replace('"mean"', '"median"'))
    assert (
        "configurations.plain.method: fusion method 'text' of the package odd 1.0 is str; an entry "
        in text_refusal
    )
    assert (
        "an entry point of chorale.methods must be a models.declarations.fusion_method.Method" in text_refusal
    )
    assert "fusion method 'median' of the package odd 1.0 has the name 'mean'" in median_refusal


def test_capabilities_follow_from_the_kinds(site: Path, declares: Declares) -> None:
    capabilities = declares(PIPELINE + '\n[stores.reads]\nkind = "reads"\n').capabilities
    assert capabilities == (
        "db.local:read",
        "db.local:write",
        "db.other:read",
        "db.other:write",
        "db.reads:read",
    )


def test_a_branch_of_kind_http_asks_a_store_of_kind_http_and_no_other(declares: Declares) -> None:
    store = '[stores.wiki]\nkind = "http"\noptions = { url = "http://a/?q={question}", id = "id" }\n'
    branch = '[branches.wiki]\nkind = "KIND"\ngroup = "wiki"\nstore = "STORE"\n'
    assert declares(store + branch.replace("KIND", "http").replace("STORE", "wiki")).branches
    for kind, of in (("bm25", "wiki"), ("http", "local")):
        complaint = refusal(declares, store + LOCAL + branch.replace("KIND", kind).replace("STORE", of))
        assert "search stores of kind 'http'" in complaint
