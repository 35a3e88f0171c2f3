"""`chorale doctor` finds the configurations that leave a language model less time than its branch declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.doctor.language_models import have_time
from cli.installation import Installation
from config.settings import Settings

PIPELINE = """
[stores.local]
kind = "embedded"

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "local"

[branches.hyde]
kind = "hyde"
group = "dense"
store = "local"
options = {{ generator = "openai", url = "http://127.0.0.1:9/v1", model = "m", limit_s = {limit_s} }}

[configurations.best]
method = "rrf"
{configuration}
"""


def found(tmp_path: Path, *, limit_s: float, configuration: str) -> list[str]:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE.format(limit_s=limit_s, configuration=configuration))
    nowhere = "redis://127.0.0.1:9/0"
    installation = Installation(Settings(home=tmp_path, redis_url=nowhere, pipeline_file=file), nowhere)
    return [f"{one.what}; {one.mend}" for one in have_time(installation)]


def test_a_configuration_whose_default_time_is_too_short_for_its_model_is_found(tmp_path: Path) -> None:
    # 2 s, of which .06 s are for the end, .1 s for fusion and .3 s for what follows the model.
    assert found(tmp_path, limit_s=5, configuration="") == [
        "configuration 'best' has no timeout_s: of the 2 s of a request that gives none the language model of hyde "
        "has at most 1.5 s, not its limit_s of 5 s; declare timeout_s in [configurations.best], above that limit_s"
    ]


@pytest.mark.parametrize(
    ("limit_s", "configuration"), [(5, "timeout_s = 8.0"), (1.5, ""), (5, 'branches = ["bm25"]')]
)
def test_a_configuration_with_enough_time_or_without_a_model_gives_no_finding(
    tmp_path: Path, limit_s: float, configuration: str
) -> None:
    assert found(tmp_path, limit_s=limit_s, configuration=configuration) == []
