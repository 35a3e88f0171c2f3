"""How times are taken and put together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from chorale_client.answer import Answer
from rich.console import Console

from ingest.raw_documents import RawDocument
from models.errors import ServiceError
from tasks.wiring.pipeline import load_pipeline
from tests.bench.commands import table_of
from tests.bench.installation import questions_about
from tests.bench.latency import waterfall_of
from tests.bench.no_op import KINDS, PIPELINE_FILE
from tests.bench.timing import WARMING, Hung, Timing, Variant, compare, drive


def test_percentiles_are_latencies_that_were_seen() -> None:
    timing = Timing([float(n) for n in range(1, 101)], wall_s=10.0)
    run = {"name": "chord", "in_flight": 1, "requests_per_s": 10.0, "hung": 0, "cpu_ms": {}}
    assert timing.to_wire("chord", 1) == {**run, "p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}
    assert Timing([7.0], 1.0).percentile_ms(0.5) == 7.0


def test_every_text_is_asked_once_in_as_many_threads_as_declared_which_warm_up_untimed() -> None:
    texts: list[str] = []
    timing = Timing()
    drive(texts.append, [f"q{n}" for n in range(20)], in_flight=4, timing=timing)
    assert sorted(texts) == sorted([WARMING] * 4 + [f"q{n}" for n in range(20)])
    assert len(timing.latencies_ms) == 20
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
    assert run["cpu_ms"].keys() == {"caller"}
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(table_of("real branches", [run]))
    head, row = capture.get().splitlines()
    assert (head.split()[-2:], row.split()[-2]) == (["hung", "cpu_ms"], "2")


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
        texts = [text for variant, text in heard if variant == name and text != WARMING]
        assert sorted(texts) == ["p", "q", "r", "s"]

    order: list[str] = []
    cache = Variant("cache", lambda text: order.append(f"again {text}"), prepare=order.append)
    compare([cache], {1: ["q"]}, run_only=run_only, rounds=1)
    assert order == [WARMING, "q", f"again {WARMING}", "again q"], "a variant is prepared before each round"


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


def test_questions_are_distinct_and_the_same_each_time() -> None:
    words = "one two three four five six seven eight"
    documents = [RawDocument(f"d{n}", "s", "", f"{words} number{n % 5}") for n in range(20)]
    questions = questions_about(documents, 5)
    assert len(set(questions)) == 5
    assert questions == questions_about(documents, 5)
    with pytest.raises(ServiceError, match="6 distinct questions wanted, but the corpus has 5"):
        questions_about(documents, 6)


def test_the_clustered_pipeline_has_the_branches_and_configurations_of_the_embedded_one() -> None:
    embedded = load_pipeline(PIPELINE_FILE, KINDS)
    clustered = load_pipeline(PIPELINE_FILE.with_name("latency_clustered.toml"), KINDS)
    assert [store.kind for store in clustered.stores.values()] == ["elasticsearch", "weaviate"]
    assert clustered.configurations == embedded.configurations
    shared, others = (
        [branch.model_dump(exclude={"store", "options"}) for branch in pipeline.branches]
        for pipeline in (embedded, clustered)
    )
    assert shared == others
