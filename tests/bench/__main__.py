"""`python -m tests.bench`."""

from __future__ import annotations

from config.blas_threads import limit_threads

if __name__ == "__main__":
    # This process is one of the variants: it gets as many threads as a worker.
    limit_threads()
    from cli.app import run
    from tests.bench.commands import bench

    run(bench, "bench")
