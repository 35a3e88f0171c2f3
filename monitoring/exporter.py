"""The metrics of an installation in Prometheus' text format.

One process per installation has to be asked, since everything is read from Redis: what drainers counted
(`monitoring.counting`), and the present state of ledger, queues and outbox.  Where there are cells, each sample has the label `cell`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from chorale_client.keys import METRICS, OUTBOX, QUARANTINE, SWEEPER, WAKEUPS
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from redis import Redis, RedisError

from ledger import ledger_scripts
from ledger.backlog import read_loads, read_outbox_bound, read_retry_after_ms
from monitoring import counting
from monitoring.counting import BREAKERS, BUCKETS_S, CELL_UP, COUNTERS, HISTOGRAMS, SEPARATOR, SUM, Series
from monitoring.queues import QueueState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Sequence[str], float]


def render(redis: Redis, *, queues: Mapping[str, QueueState] | None = None) -> bytes:
    """All metrics as text of the type CONTENT_TYPE.  Raises RedisError; the client must not decode responses.

    `queues` are states of further queues; the acting sweeper has measured those of requests, unless admission is off.
    """
    return _text(_families(redis, queues or {}))


def render_cells(
    cells: Mapping[str, Redis], *, read_queues: Callable[[Redis], Mapping[str, QueueState]] = lambda _: {}
) -> bytes:
    """As `render`, of the cells by their names: each sample has the label `cell`.  A cell that cannot be read has only CELL_UP."""
    up = GaugeMetricFamily(CELL_UP.name, CELL_UP.meaning, labels=CELL_UP.labels)
    families: dict[str, Metric] = {up.name: up}
    for name, redis in cells.items():
        try:
            cell_families = list(_families(redis, read_queues(redis)))
        except RedisError:
            cell_families = []
        up.add_metric([name], bool(cell_families))
        for family in cell_families:
            samples = [one._replace(labels={**one.labels, "cell": name}) for one in family.samples]
            family.samples = []
            families.setdefault(family.name, family).samples += samples
    return _text(families.values())


def _text(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(families)))
    return generate_latest(registry)


def _families(redis: Redis, queues: Mapping[str, QueueState]) -> Iterator[Metric]:
    raw = cast("dict[bytes, bytes]", redis.hgetall(METRICS))
    counted = {field.decode(): value.decode() for field, value in raw.items()}
    breakers = [name for name in counted.pop(BREAKERS, "").split(SEPARATOR) if name]
    yield from _counted(counted)
    yield from _present(redis, breakers, queues)


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _counted(counted: Mapping[str, str]) -> Iterator[Metric]:
    """The histograms and counters: all requests that were written to the audit tables, and the tokens of endpoints."""
    by_name: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    for field, value in counted.items():
        name, *values = field.split(SEPARATOR)
        by_name[name][tuple(values)] = int(value)
    for series in HISTOGRAMS:
        yield _histogram(series, by_name[series.name])
    for series in COUNTERS:
        family = CounterMetricFamily(series.name, series.meaning, labels=series.labels)
        for labels, count in sorted(by_name[series.name].items()):
            family.add_metric(labels, count)
        yield family


def _histogram(series: Series, counted: Mapping[tuple[str, ...], int]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(series.name, series.meaning, labels=series.labels)
    for labels in sorted({(*labels,) for *labels, _ in counted}):
        buckets, total = [], 0
        for place, bound in enumerate((*map(str, BUCKETS_S), "+Inf")):
            total += counted.get((*labels, str(place)), 0)
            buckets.append((bound, float(total)))
        family.add_metric(labels, buckets, counted.get((*labels, SUM), 0) / 1e6)
    return family


def _present(redis: Redis, breakers: Sequence[str], queues: Mapping[str, QueueState]) -> Iterator[Metric]:
    """The metrics that are read from the present state."""
    now_ms, flat, *not_closed = ledger_scripts(redis).run("breakers", args=breakers)
    now_ms = int(now_ms)
    waiting = {queue: (load.length, (load.age_ms or 0) / 1000) for queue, load in read_loads(flat).items()}
    waiting |= {queue: (state.length or 0, state.age_s or 0.0) for queue, state in queues.items()}
    yield _gauge(counting.QUEUE_LENGTH, [([queue], length) for queue, (length, _) in waiting.items()])
    yield _gauge(counting.QUEUE_AGE, [([queue], age_s) for queue, (_, age_s) in waiting.items()])
    openness = dict.fromkeys(breakers, 0.0)
    for name, _, open_until, *_ in not_closed:
        openness[name.decode()] = 1.0 if now_ms < int(open_until) else 0.5
    yield _gauge(counting.BREAKER, [([name], value) for name, value in openness.items()])
    yield _gauge(counting.REFUSING, [([], float(read_retry_after_ms(flat) is not None))])
    bound = read_outbox_bound(redis)
    yield _gauge(counting.OUTBOX, [([], redis.xlen(OUTBOX))])
    yield _gauge(counting.OUTBOX_LIMIT, [([], bound.entries)])
    refused = CounterMetricFamily(counting.OUTBOX_REFUSED.name, counting.OUTBOX_REFUSED.meaning)
    refused.add_metric([], bound.refused)
    yield refused
    yield _gauge(counting.QUARANTINE, [([], redis.hlen(QUARANTINE))])
    first = cast("list[tuple[bytes, float]]", redis.zrange(WAKEUPS, 0, 0, withscores=True))
    yield _gauge(counting.IN_FLIGHT, [([], redis.zcard(WAKEUPS))])
    yield _gauge(counting.SWEEPER_LAG, [([], max(0.0, now_ms - first[0][1]) / 1000 if first else 0.0)])
    yield _gauge(counting.SWEEPER_ACTING, [([], float(redis.exists(SWEEPER)))])


def _gauge(series: Series, samples: Sequence[Sample]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(series.name, series.meaning, labels=series.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
