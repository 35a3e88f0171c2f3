"""deploy/helm, rendered by Helm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tasks.wiring.pipeline import load_pipeline
from tests.support.servers.services import missing

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
OTHERS = {"chorale-sweeper", "chorale-flower", "chorale-http", "chorale-queue-figures"}
"""The services that work on no queue."""
EVERYTHING = (
    "--set=ingress.enabled=true,ingress.host=search.example,ingress.tlsSecret=cert,ingress.className=nginx",
    "--set=models.claim=shared-models",
    "--set=services.fusion.image.tag=torch,services.fusion.nodeSelector.card=h200,services.fusion.replicas=1",
    "--set=services.fusion.resources.limits.nvidia\\.com/gpu=1",
    "--set=services.fusion.strategy.type=Recreate",
    "--set=pod.nodeSelector.pool=cpu",
)
"""The optional parts of the chart."""


def named(queue: str) -> str:
    return f"chorale-{queue.removeprefix('chorale.').replace('_', '-')}"


QUEUES = {named(queue): queue for queue in load_pipeline(CHART / "pipeline.toml").queues}


def helm(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    if (program := shutil.which("helm", path=folders)) is None:
        missing("without helm: `make dev` brings it to Linux on x86-64 alone")
    return subprocess.run([str(program), *words], input=stdin, capture_output=True, text=True)


@cache
def rendered(*options: str, release: str = "chorale") -> tuple[dict[str, Any], ...]:
    done = helm("template", release, str(CHART), "--namespace=search", *options)
    assert done.returncode == 0, done.stderr
    return tuple(resource for resource in yaml.safe_load_all(done.stdout) if resource)


def by_kind(kind: str, *options: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in rendered(*options) if one["kind"] == kind}


def pods(*options: str) -> dict[str, dict[str, Any]]:
    return {name: one["spec"]["template"]["spec"] for name, one in by_kind("Deployment", *options).items()}


def containers(*options: str) -> dict[str, dict[str, Any]]:
    return {name: pod["containers"][0] for name, pod in pods(*options).items() if len(pod["containers"]) == 1}
