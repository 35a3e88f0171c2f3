"""`chorale up` with replicas: real processes answer, and `chorale status` says what each of them serves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from chorale_client import Chorale

from config.home import find_redis_url
from tests.acceptance.test_up import said_until
from tests.support.command_line import command

SERVED = ["chorale.bm25", "chorale.vector", "chorale.hyde", "chorale.fusion"]


@pytest.mark.slow
def test_replicas_answer_and_status_shows_that_each_serves_all_branches_and_the_fusion(
    tmp_path: Path,
) -> None:
    around = {"CHORALE_HOME": str(tmp_path / "home"), "CHORALE_LAYOUT": "replicas"}
    (tmp_path / "repairs.txt").write_text("The landlord pays for repairs.")
    started = subprocess.Popen(
        **command("up", "--json", "--processes", "index=0", **around),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with started as up:
        try:
            said_until(up, "ready: ")
            add = command("index", str(tmp_path / "repairs.txt"), "--where", "here", **around)
            subprocess.run(**add, check=True, capture_output=True)
            url = find_redis_url(tmp_path / "home")
            assert url is not None
            answer = Chorale(url).retrieve("who pays for repairs?", timeout_s=20)
            assert answer.status == "complete"
            assert len(answer.hits) == 1
            said = subprocess.run(**command("status", "--json", **around), capture_output=True, check=True)
            found = {worker["name"]: worker["queues"] for worker in json.loads(said.stdout)["workers"]}
            # A machine with more cores has further replicas.
            assert [found[name] for name in ("replica-1", "replica-2", "sweeper")] == [SERVED, SERVED, []]
        finally:
            up.kill()
