"""`python -m tests.bench.worker NAME [QUEUE...]`: the product's worker, or its sweeper or drainer if no queue is named.

Both also know the kind of branch that does no work.
"""

from __future__ import annotations

import sys

from tasks.worker.sweeper_process import run
from tasks.worker.worker_process import run_worker
from tests.bench import no_op
from tests.bench import synthetic_corpus as synthetic_corpus  # registers its embedder

if __name__ == "__main__":
    name, *queues = sys.argv[1:]
    if queues:
        run_worker(queues, name=name, kinds=no_op.KINDS)
    else:
        run(name=name, only="drain" if name == "drainer" else "sweep", kinds=no_op.KINDS)
