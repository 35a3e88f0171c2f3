"""docs/evidence/capacity.md: its table is what its script computes from the measured figures."""

from __future__ import annotations

from docs.evidence import capacity

MEASURED = {
    "runs": [
        {"name": "chord", "in_flight": 1, "cpu_ms": {"bm25-1": 9.0}},
        {
            "name": "chord",
            "in_flight": 16,
            "cpu_ms": {
                name: ms
                for ms, names in {
                    1.0: ["redis", "bm25-1", "bm25-2", "caller"],
                    2.0: ["sweeper"],
                    6.0: ["vector-1", "hyde-1", "fusion-1"],
                }.items()
                for name in names
            },
        },
    ],
    "redis_at": [{"in_flight": 16, "commands": 6.0, "operations": 100.0, "bytes_moved": 50_000}],
    "redis_bytes_left_per_request": 5_000,
    "audit_rows_per_request": 15.0,
}


def test_the_page_has_the_table_that_its_script_computes() -> None:
    assert capacity.PAGE.read_text(encoding="utf-8") == capacity.page(), (
        "run `python -m docs.evidence.capacity`"
    )


def test_processes_and_cells_follow_from_processor_time() -> None:
    cells = [line.strip("|").split("|") for line in capacity.table(MEASURED).splitlines()[2:-2]]
    rows = {name.strip(): [value.strip(" *") for value in values] for name, *values in cells}
    # 1,000 requests x 2 ms = 2 cores, of which each process may use .6
    assert rows["`bm25` processes (2.00 ms)"] == ["1", "4", "34"]
    # The sweeper of a cell has .6 x 1 s for requests of 2 ms each: 300 a second
    assert rows["**cells**: each a Redis, a sweeper, an audit database"] == ["1", "4", "34"]
    assert rows["Redis' network, Mbit/s (50,000 bytes a request)"] == ["40", "400", "4,000"]
    assert "first bottleneck of a cell is: sweeper and drainer" in capacity.table(MEASURED)
