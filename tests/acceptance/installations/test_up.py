"""`chorale up` as a person starts it: real Redis, real worker processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import redis

from cli.local.ports import Address
from cli.local.servers import curl
from config.home import find_redis_url
from config.settings import Settings
from models.texts.known_words import ADVICE
from tests.support.command_line import command, in_process
from tests.support.models.languages import ITALIAN
from tests.support.pipelines.forked_children import running_module
from tests.support.pipelines.pipeline_files import BM25_ALONE
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

# The queues that need no model: the processes are what is tested here.
FEW = "retrieve=0,vector=0,hyde=0,fusion=0,index=0,bulk=0,bm25=2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def pipeline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pipeline") / "pipeline.toml"
    path.write_text(BM25_ALONE)
    return path


@pytest.fixture(scope="module")
def flower_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def http_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def up(home: Path, pipeline_file: Path, flower_port: int, http_port: int) -> Iterator[subprocess.Popen[str]]:
    """Replicas of a pipeline that needs no model."""
    flower = ("--flower", f"--flower-port={flower_port}")
    http = ("--http", f"--http-bind={http_port}")
    variables = {"CHORALE_HOME": str(home), "CHORALE_PIPELINE_FILE": str(pipeline_file)}
    processes = ("--processes", "retrieve=0,index=0,bulk=0")
    with subprocess.Popen(
        **command("up", "--json", *processes, *flower, *http, CHORALE_LAYOUT="replicas", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            lines = lines_until(process.stdout, "ready: ")
            login = (home / "flower_login").read_text().strip()
            page = f"http://127.0.0.1:{flower_port}/tasks?name=chorale.retrieve"
            assert {"process": "chorale", "line": f"Flower: {page}, login {login}"} in lines
            assert {"process": "chorale", "line": f"HTTP: http://127.0.0.1:{http_port}/v1"} in lines
            question = curl(Address("127.0.0.1", http_port), home / "http_key")
            assert {"process": "chorale", "line": question} in lines
            yield process
        finally:
            process.kill()


def lines_until(output: Iterable[str] | None, beginning: str) -> list[dict[str, Any]]:
    """The lines of `up` until one of its own begins so."""
    lines: list[dict[str, Any]] = []
    for line in output or ():
        lines.append(json.loads(line))
        if lines[-1]["process"] == "chorale" and lines[-1]["line"].startswith(beginning):
            return lines
    raise AssertionError(f"`up` ended without {beginning!r}: {lines}")


def test_it_names_a_namespace_whose_language_the_encoder_hardly_knows(tmp_path: Path) -> None:
    text, variables = tmp_path / "italian.txt", {"CHORALE_HOME": str(tmp_path / "home")}
    text.write_text(ITALIAN)
    assert in_process("index", str(text), "-n", "italian", **variables).returncode == 0
    arguments = ("up", "--json", "--processes", FEW)
    with running_module("cli", *arguments, environment={**os.environ, **variables}) as (_, output):
        line = lines_until(output, "namespace 'italian': its encoder knows ")[-1]["line"]
    assert line.endswith(ADVICE)


def test_it_runs_what_was_asked_for_and_other_terminals_find_it(
    up: subprocess.Popen[str], home: Path
) -> None:
    workers = json.loads(in_process("status", "--json", CHORALE_HOME=str(home)).stdout)["workers"]
    replicas = [f"replica-{number + 1}" for number in range(Settings().replicas)]
    served = {name: ["chorale.bm25", "chorale.fusion"] for name in replicas}
    assert {worker["name"]: worker["queues"] for worker in workers} == {**served, "sweeper": []}
    assert all(worker["is_ready"] for worker in workers)
    running = {child.pid for child in psutil.Process(up.pid).children()}
    assert running >= {worker["pid"] for worker in workers}
    assert len(running) == len(workers) + len(("Redis", "the HTTP API", "Flower"))


@pytest.mark.usefixtures("up")
def test_nobody_else_may_read_what_its_processes_made(home: Path) -> None:
    made = {}
    for path in home.rglob("*"):
        with suppress(FileNotFoundError):  # drafts of its processes are gone again
            made[str(path.relative_to(home))] = stat.S_IMODE(path.lstat().st_mode)
    assert {"audit.db", "redis", "up.lock", "http_key", "flower_login"} <= made.keys()
    assert not {path: oct(mode) for path, mode in made.items() if mode & 0o077}


def test_flower_asks_for_the_login_which_only_its_owner_can_read(
    up: subprocess.Popen[str], home: Path, flower_port: int
) -> None:
    address, file = f"http://127.0.0.1:{flower_port}/api/tasks", home / "flower_login"
    user, _, password = file.read_text().strip().partition(":")
    assert until(lambda: status_of(address, (user, password))) == 200
    assert status_of(address, (user, "wrong")) == status_of(address, None) == 401
    assert len(password) >= 20
    flower = next(one for one in psutil.Process(up.pid).children() if "flower" in one.cmdline())
    assert password not in " ".join(flower.cmdline())
    assert {one.laddr.ip for one in flower.net_connections() if one.status == "LISTEN"} == {"127.0.0.1"}


def status_of(address: str, login: tuple[str, str] | None) -> int:
    """0 while nobody answers."""
    try:
        return httpx.get(address, auth=login, timeout=30).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.parametrize(
    ("options", "program"), [("--flower --flower-port", "Flower"), ("--http --http-bind", "The HTTP API")]
)
def test_a_port_that_is_taken_is_answered_with_one_sentence(
    options: str, program: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused = in_process("up", *options.split(), str(port), CHORALE_HOME=str(tmp_path))
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"chorale: {program} cannot listen on port {port} (")


def test_a_second_up_on_the_same_home_is_refused_with_a_sentence(
    up: subprocess.Popen[str], home: Path
) -> None:
    refused = in_process("up", CHORALE_HOME=str(home))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"chorale: chorale is already running on {home} (process {up.pid}); "
        "stop it, or set CHORALE_HOME to another folder.\n"
    )


def test_a_killed_worker_and_a_killed_redis_come_back(up: subprocess.Popen[str], home: Path) -> None:
    before = find_redis_url(home)
    assert before is not None
    with redis.Redis.from_url(before) as client:
        client.set("kept", "yes")
        # Redis keeps writes back while the last ones go to the disk.
        until(lambda: client.info("persistence")["aof_buffer_length"] == 0)
        server = int(client.info("server")["process_id"])
        worker = json.loads(client.get("chorale:heartbeat:replica-1") or b"{}")["pid"]
    os.kill(worker, signal.SIGKILL)
    os.kill(server, signal.SIGKILL)

    def came_back() -> bool:
        if (url := find_redis_url(home)) is None:
            return False
        with redis.Redis.from_url(url) as client:
            beat = json.loads(client.get("chorale:heartbeat:replica-1") or b"{}")
            return bool(beat.get("ready")) and beat["pid"] != worker and client.get("kept") == b"yes"

    until(came_back, limit_s=120)


def test_an_http_process_that_hangs_is_replaced(up: subprocess.Popen[str], http_port: int) -> None:
    def listening() -> psutil.Process | None:
        for process in psutil.Process(up.pid).children(recursive=True):
            with suppress(psutil.Error):
                if any(connection.laddr.port == http_port for connection in process.net_connections("tcp")):
                    return process
        return None

    before = until(listening, limit_s=60)
    assert before is not None
    before.suspend()

    url = f"http://127.0.0.1:{http_port}/healthz"

    def is_back() -> bool:
        try:
            return httpx.get(url, timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    until(is_back, limit_s=90)
    assert not before.is_running() or before.status() == psutil.STATUS_ZOMBIE
    lines = lines_until(up.stdout, "http hangs: no heartbeat for ")
    assert lines[-1]["line"].endswith("it starts again in 0.5 s")


def test_ctrl_c_stops_everything_and_leaves_no_trace(up: subprocess.Popen[str], home: Path) -> None:
    children = psutil.Process(up.pid).children(recursive=True)
    up.send_signal(signal.SIGINT)
    lines_until(up.stdout, "stopped")
    assert up.wait(60) == 0
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert find_redis_url(home) is None
    assert not (home / "up.json").exists()


def test_stopped_while_it_waits_for_a_process_it_says_so_once(tmp_path: Path) -> None:
    home = {"CHORALE_HOME": str(tmp_path / "home")}
    arguments = ("up", "--json", "--processes", "retrieve=1,bm25=0,fusion=0,index=0,bulk=0")
    with subprocess.Popen(
        **command(*arguments, **home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            lines_until(process.stdout, "starting in ")
            process.terminate()
            said = [json.loads(line)["line"] for line in process.stdout or ()]
        finally:
            process.kill()
    # One may have been due just before.
    assert len([line for line in said if line.startswith("waiting for ")]) <= 1
    assert said.count("stopping before all were ready") == 1
    assert said[-1] == "stopped"


@pytest.mark.slow
def test_without_its_rerankers_model_it_serves_the_fused_order_and_says_so(tmp_path: Path) -> None:
    reranking = '[rerankers.gone]\nmodel = "/no/such/model"\n[configurations.best]\nmethod = "rrf"\nreranker = "gone"\n'
    (tmp_path / "pipeline.toml").write_text('default_configuration = "best"\n' + BM25_ALONE + reranking)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "repairs.md").write_text("# Repairs\n\nThe landlord pays for repairs.\n")
    home, port = tmp_path / "home", free_port()
    variables = {"CHORALE_HOME": str(home), "CHORALE_PIPELINE_FILE": str(tmp_path / "pipeline.toml")}
    processes = ("--processes", "retrieve=1,bm25=1,fusion=1,index=0,bulk=0")
    arguments = ("up", "--json", *processes, "--http", f"--http-bind={port}")
    with running_module("cli", *arguments, environment={**os.environ, **variables}) as (_, output):
        lines = lines_until(output, "ready: ")
        indexed = in_process("index", str(tmp_path / "docs"), "--namespace", "docs", **variables)
        assert indexed.returncode == 0, indexed.stderr
        url, key = f"http://127.0.0.1:{port}", (home / "http_key").read_text().strip()
        question = {"questions": ["repairs"], "namespace": "docs", "timeout_s": 30}
        login = {"Authorization": f"Bearer {key}"}
        answer = httpx.post(f"{url}/v1/searches", json=question, headers=login, timeout=60).json()
        readiness = httpx.get(f"{url}/readyz", timeout=60)
    [unready] = [line["line"] for line in lines if line.get("line", "").startswith("not ready")]
    assert unready.startswith("not ready: fusion-1: ")
    assert "/no/such/model" in unready
    assert unready.endswith("; until then answers may be degraded")
    assert [(part["where"], part["reason"]) for part in answer["degraded"]] == [("rerank", "model_missing")]
    [hit] = answer["questions"][0]["hits"]
    assert (answer["status"], hit["title"], hit["score_kind"]) == ("degraded", "Repairs", "rrf")
    missing = {part["name"]: part["why"] for part in readiness.json()["missing"]}
    assert (readiness.status_code, missing["chorale.fusion"]) == (
        200,
        "the worker of chorale.fusion is not ready yet",
    )


def test_a_wrong_setting_and_an_unreachable_redis_are_sentences(tmp_path: Path) -> None:
    wrong = in_process("up", "--processes", "bm25=many", CHORALE_HOME=str(tmp_path))
    assert wrong.returncode == 2
    assert "CHORALE_WORKER_PROCESSES" in wrong.stderr
    assert "Traceback" not in wrong.stderr

    away = {"CHORALE_HOME": str(tmp_path), "CHORALE_REDIS_URL": "redis://:secret@127.0.0.1:1/0"}
    absent = in_process("up", **away)
    assert absent.returncode == 1
    assert absent.stderr.startswith("chorale: The Redis of CHORALE_REDIS_URL, redis://***@127.0.0.1:1/0, ")
    assert "secret" not in absent.stderr
    assert "Traceback" not in absent.stderr
