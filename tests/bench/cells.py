"""Requests without work through one cell and through two, which share this machine's cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chorale_client import Cells, Chorale
from chorale_client.answer import Answer

from tests.bench.installation import NAMESPACE, Measured
from tests.bench.latency import wait_for_audit
from tests.bench.timing import Variant, complete
from tests.bench.variants import BESIDE_WORKERS, TIMEOUT_S


def make_variants(cells: Sequence[Measured]) -> list[Variant]:
    """One variant for each number of cells."""
    options: dict[str, Any] = {"namespace": NAMESPACE, "configuration": "noop", "include": ["ids"]}
    options |= {"timeout_s": TIMEOUT_S, "rerank": "off", "cache": "bypass"}

    def variant(count: int) -> Variant:
        used = cells[:count]
        client = Cells({str(n): Chorale(cell.resources.redis_url) for n, cell in enumerate(used)})

        def ask(text: str) -> Answer:
            return complete(text, client.retrieve(text, **options))

        def settle() -> None:
            for cell in used:
                wait_for_audit(cell.resources.redis)

        names = [f"{n} {name}" for n, cell in enumerate(used) for name in (*cell.layout, *BESIDE_WORKERS)]
        return Variant(f"{count} of {len(cells)} cells", ask, tuple(names), settle=settle)

    return [variant(count) for count in range(1, len(cells) + 1)]


def run_only(cells: Sequence[Measured], processes: Sequence[str]) -> dict[str, int]:
    """As `BenchInstallation.run_only`; before the name of a process stands the number of its cell."""
    return {
        f"{n} {name}": pid
        for n, cell in enumerate(cells)
        for name, pid in cell.installation.run_only(
            [name.removeprefix(f"{n} ") for name in processes if name.startswith(f"{n} ")]
        ).items()
    }
