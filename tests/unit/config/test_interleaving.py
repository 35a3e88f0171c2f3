"""The tables [interleaving] and [shadow] of a pipeline file: two configurations that rank the same lists, and any two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from config.declarations import Interleaving, Pipeline, Shadow
from config.pipeline_reader import DEFAULT_FILE
from models.errors import WrongDeclaration
from tasks.wiring.pipeline import load_pipeline

DECLARED = '[interleaving]\na = "rrf"\nb = "scores"\nshare = 0.1\n'
MORE = """
[rerankers.small]
model = "x"
[configurations.reranked]
method = "rrf"
reranker = "small"
[configurations.short]
method = "rrf"
rank_window_size = 20
"""

Declares = Callable[[str], Pipeline]


@pytest.fixture
def declares(tmp_path: Path) -> Declares:
    """Reads the embedded pipeline with more tables."""

    def read(text: str) -> Pipeline:
        file = tmp_path / "pipeline.toml"
        file.write_text(DEFAULT_FILE.read_text(encoding="utf-8") + MORE + text, encoding="utf-8")
        return load_pipeline(file)

    return read


def test_a_file_may_interleave_two_of_its_configurations(declares: Declares) -> None:
    assert declares("").interleaving is None
    assert declares(DECLARED).interleaving == Interleaving(a="rrf", b="scores", share=0.1)
    # B may ask fewer branches, and shorter lists.
    for name in ("bm25", "short"):
        assert declares(DECLARED.replace("scores", name)).interleaving is not None


OTHERWISE = "no search is made for it; declare such configurations under [shadow]"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("share = 0.1", "interleaving.a: Field required"),
        (
            'a = "rrf"\nb = "scores"\nshare = 1.5',
            "interleaving.share: Input should be less than or equal to 1",
        ),
        (
            'a = "rrf"\nb = "scores"\nshare = 0.1\nc = "x"',
            "interleaving.c: unknown field; there are: a, b, share",
        ),
        (
            'a = "rrf"\nb = "none"\nshare = 0.1',
            "interleaving.b: no configuration 'none'; there are: baseline, bm25",
        ),
        ('a = "rrf"\nb = "rrf"\nshare = 0.1', "interleaving.b: the same configuration as `a`"),
        (
            'a = "rrf"\nb = "reranked"\nshare = 0.1',
            "interleaving.b: 'reranked' has the reranker 'small', and a page is drafted after the fusion",
        ),
        (
            'a = "rrf-two"\nb = "rrf"\nshare = 0.1',
            f"interleaving.b: 'rrf' needs other branches (hyde) than 'rrf-two', and {OTHERWISE}",
        ),
        (
            'a = "short"\nb = "rrf"\nshare = 0.1',
            f"interleaving.b: 'rrf' needs longer lists (`rank_window_size`) than 'short', and {OTHERWISE}",
        ),
        (
            'a = "none"\nb = "rrf"\nshare = 0.1',
            "shadow.a: no configuration 'none'; there are: baseline, bm25",
        ),
        ('a = "rrf"\nb = "rrf"\nshare = 0.1', "shadow.b: the same configuration as `a`"),
        ('a = "rrf"\nb = "scores"\nshare = -1', "shadow.share: Input should be greater than or equal to 0"),
        ('a = "rrf"\nb = "scores"', "shadow.share: Field required"),
    ],
)
def test_each_mistake_stops_the_start_with_its_field(declares: Declares, table: str, complaint: str) -> None:
    with pytest.raises(WrongDeclaration) as refused:
        declares(f"[{complaint.partition('.')[0]}]\n{table}\n")
    assert complaint in str(refused.value)


def test_a_shadow_may_need_what_the_other_configuration_does_not_search(declares: Declares) -> None:
    assert declares(DECLARED).shadow is None
    for a, b in (("rrf", "reranked"), ("rrf-two", "rrf"), ("short", "rrf")):
        both = declares(f'{DECLARED}[shadow]\na = "{a}"\nb = "{b}"\nshare = 0.05\n')
        assert both.shadow == Shadow(a=a, b=b, share=0.05)
        assert both.interleaving == Interleaving(a="rrf", b="scores", share=0.1)
