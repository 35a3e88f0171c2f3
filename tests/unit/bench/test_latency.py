"""How times are taken and put together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from chorale_client.answer import Answer
from rich.console import Console

from bench.corpus_questions import questions_about
from bench.latency import Variant, compare, cpu_by_process, waterfall_of
from bench.redis_cost import is_counted
from bench.timing import WARMING, Hung, Timing, drive
from cli.views.latency import runs_table
from ingest.raw_documents import RawDocument
from models.errors import ServiceError


def test_percentiles_are_latencies_that_were_seen() -> None:
    timing = Timing([float(n) for n in range(1, 101)], wall_s=10.0)
    assert timing.to_wire("chord", 1) == {
        "name": "chord",
        "in_flight": 1,
        "p50_ms": 50.0,
        "p95_ms": 95.0,
        "p99_ms": 99.0,
        "requests_per_s": 10.0,
        "hung": 0,
        "cpu_ms": {},
    }
    assert Timing([7.0], 1.0).percentile_ms(0.5) == 7.0


def test_every_text_is_asked_once_and_each_thread_warms_up_untimed() -> None:
    asked: list[str] = []
    timing = Timing()
    drive(asked.append, [f"q{n}" for n in range(20)], in_flight=4, timing=timing)
    assert sorted(text for text in asked if text != WARMING) == sorted(f"q{n}" for n in range(20))
    assert asked.count(WARMING) == 4
    assert len(timing.latencies_ms) == 20


def test_as_many_requests_are_in_flight_as_declared() -> None:
    # A barrier of three lets nobody through unless three ask at the same time.
    barrier = threading.Barrier(3, timeout=20)
    drive(lambda _: barrier.wait(), ["a", "b", "c"], in_flight=3, timing=Timing())
    assert not barrier.broken


def test_no_question_is_asked_before_its_time_and_processor_time_count() -> None:
    order: list[str] = []

    @contextmanager
    def meter() -> Iterator[None]:
        time.sleep(0.1)
        order.append("meter")
        yield

    drive(order.append, ["a", "b", "c", "d"], in_flight=2, timing=Timing(), meter=meter())
    assert order[:3] == [WARMING, WARMING, "meter"]
    assert sorted(order[3:]) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("bad", ["b", WARMING])
def test_an_error_ends_the_measurement(bad: str) -> None:
    def ask(text: str) -> None:
        if text == bad:
            raise LookupError(text)

    with pytest.raises(LookupError):
        drive(ask, ["a", "b", "c"], in_flight=2, timing=Timing())


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_request_that_hangs_is_counted_and_the_others_are_asked(in_flight: int) -> None:
    def ask(text: str) -> None:
        if text in ("b", "d"):
            raise Hung("The operation timed out.")

    variant = Variant("plain_chord", ask)
    (run,) = compare([variant], {in_flight: list("abcde")}, run_only=lambda _: None, rounds=1)
    assert run["hung"] == 2
    assert run["p50_ms"] is not None
    assert cpu_by_process([run], ", no-op").keys() == {"plain_chord, no-op"}
    assert run["cpu_ms"].keys() == {"caller"}
    shown = Console(width=120, color_system=None)
    with shown.capture() as capture:
        shown.print(runs_table("real branches", [run]))
    head, row = capture.get().splitlines()
    assert (head.split()[-1], row.split()[-1]) == ("hung", "2")


def test_a_variant_of_which_every_request_hangs_has_no_latencies() -> None:
    def ask(text: str) -> None:
        raise Hung(text)

    (run,) = compare([Variant("plain_chord", ask)], {1: ["a"]}, run_only=lambda _: None, rounds=1)
    # The request before the clock hangs, too.
    assert (run["p50_ms"], run["requests_per_s"], run["hung"]) == (None, 0.0, 2)


def test_variants_take_turns_on_the_same_questions_while_the_others_are_stopped() -> None:
    heard: list[tuple[str, str]] = []
    running: list[tuple[str, ...]] = []

    def variant(name: str) -> Variant:
        return Variant(name, lambda text: heard.append((name, text)), (f"{name}-worker",))

    def run_only(processes: Sequence[str]) -> None:
        running.append(tuple(processes))

    runs = compare([variant("a"), variant("b")], {1: ["p", "q"], 2: ["r", "s"]}, run_only=run_only, rounds=2)

    assert [(run["name"], run["in_flight"]) for run in runs] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert running == [("a-worker",), ("b-worker",), ("b-worker",), ("a-worker",)]
    for name in ("a", "b"):
        assert sorted(text for who, text in heard if who == name and text != WARMING) == ["p", "q", "r", "s"]


def test_a_variant_is_prepared_before_each_round() -> None:
    heard: list[str] = []
    cache = Variant("cache", lambda text: heard.append(f"again {text}"), prepare=heard.append)
    compare([cache], {1: ["q"]}, run_only=lambda _: None, rounds=1)
    assert heard == [WARMING, "q", f"again {WARMING}", "again q"]


def test_the_waterfall_has_medians_in_the_order_of_the_stages() -> None:
    def answer(ms: float) -> Answer:
        stages = [
            {"stage": "plan", "ms": ms},
            {"stage": "search.bm25", "ms": 2 * ms, "start_ms": ms},
            {"stage": "boost", "status": "skipped"},
        ]
        return Answer.from_wire({"request_id": "r", "status": "complete", "stages": stages})

    assert waterfall_of([answer(1), answer(3), answer(50)]) == [
        {"stage": "plan", "start_ms": None, "ms": 3},
        {"stage": "search.bm25", "start_ms": 3, "ms": 6},
    ]


@pytest.mark.parametrize(
    ("client_type", "command", "counted"),
    [
        ("unix", "EVALSHA abc 1 chorale:request:1 x", True),
        ("unix", "XDEL chorale:outbox 1-1", True),
        ("unix", "SUBSCRIBE celery-task-meta-1", True),
        ("lua", "HSET chorale:request:1 state planned", False),
        ("unix", "BRPOP chorale.bm25 1", False),
        ("unix", "SET chorale:heartbeat:bm25-1 {} EX 10", False),
        ("unix", "EVALSHA abc 2 chorale:moments chorale:sweeper me 64 150", False),
        ("unix", "EVALSHA abc 2 chorale.retrieve chorale.bm25", False),
        ("unix", "EVALSHA abc 1 chorale.bm25 chorale.bm25 chorale.search.bm25 1:bm25 7", True),
        ("unix", "EVALSHA abc 0 chorale.fusion chorale.fuse 1", True),
        ("unix", "XREAD BLOCK 1000 COUNT 100 STREAMS chorale:outbox 0", False),
    ],
)
def test_only_commands_that_clients_send_for_requests_are_counted(
    client_type: str, command: str, counted: bool
) -> None:
    assert is_counted({"client_type": client_type, "command": command}) is counted


def test_questions_are_distinct_and_the_same_each_time() -> None:
    words = "one two three four five six seven eight"
    documents = [RawDocument(f"d{n}", "s", "", f"{words} number{n % 5}") for n in range(20)]
    found = questions_about(documents, 5)
    assert len(set(found)) == 5
    assert found == questions_about(documents, 5)
    with pytest.raises(ServiceError, match="6 distinct questions wanted, but the corpus has 5"):
        questions_about(documents, 6)
