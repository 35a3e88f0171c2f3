"""Alert rules and dashboard ask for metrics that exist; Prometheus' own tool reads the rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis

from monitoring.counting import CELL_UP, COUNTERS, GAUGES, HISTOGRAMS
from monitoring.exporter import render_cells

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "chorale.json").read_text(encoding="utf-8"))
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS = [*(rule["expr"] for rule in ALERTS), *PANELS]
LABELS = {label for series in (*HISTOGRAMS, *COUNTERS, *GAUGES, CELL_UP) for label in series.labels} | {"le"}


@pytest.fixture
def rendered(redis_client: Redis) -> set[str]:
    """The names that Prometheus can be asked for."""
    text = render_cells({"a": redis_client}).decode()
    types = [line.split() for line in text.splitlines() if line.startswith("# TYPE")]
    parts = {"histogram": ("_bucket", "_count", "_sum")}
    return {f"{name}{part}" for _, _, name, kind in types for part in parts.get(kind, ("",))}


def promtool() -> str:
    program = os.environ.get("CHORALE_TEST_PROMTOOL") or shutil.which("promtool")
    if program is None:
        pytest.skip("without promtool: it comes with Debian's package `prometheus`")
    return program


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\bchorale_\w+", expression))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_that_is_asked_for_is_one_of_ours(expression: str, rendered: set[str]) -> None:
    assert names_in(expression)
    assert names_in(expression) <= rendered
    grouped = [label for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(", ")]
    assert {*grouped, *re.findall(r"[{,]\s*(\w+)=", expression)} <= LABELS


def test_every_metric_is_shown_on_the_dashboard(rendered: set[str]) -> None:
    absent = rendered.difference(*map(names_in, PANELS))
    assert {name for name in absent if not name.endswith(("_count", "_sum", "_bucket"))} == set()


def test_promtool_accepts_the_rules_and_each_alert_fires_where_it_should() -> None:
    checks = (
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    )
    for call in checks:
        done = subprocess.run([promtool(), *call], cwd=PROMETHEUS, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8")
    assert [rule["alert"] for rule in ALERTS if rule["alert"] not in tested] == []


def test_promtool_reads_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{place}", "expr": re.sub(r"\$__\w+", "5m", expression)}
        for place, expression in enumerate(PANELS)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool(), "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
