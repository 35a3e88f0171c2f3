"""The demo's own installation, in a temporary folder, with the handbook of a ferry company that does not exist."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chorale_client import Chorale

from cli.installation import open_keys
from cli.local.processes import running
from config.logging import set_up_logging
from config.settings import load_settings
from ingest.read import read_documents
from records.keys.grant import Grant
from tasks.indexing.indexing_run import IndexReport, SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources

if TYPE_CHECKING:
    from cli.local.child_process import Output
    from cli.local.ports import Address
    from cli.local.supervisor import Supervisor

CORPUS = Path(__file__).parents[2] / "examples" / "handbook.jsonl"
_SETTINGS = {
    "CHORALE_LOG_LEVEL": "WARNING",
    # A worker hangs, and the others answer.
    "CHORALE_LAYOUT": "queues",
    # The demo indexes by itself, and the fewer processes warm up the sooner it begins.
    "CHORALE_WORKER_PROCESSES": "index=0,bulk=0",
}


@dataclass(frozen=True, slots=True)
class DemoInstallation:
    """A started installation, which may not be ready yet."""

    resources: Resources
    supervisor: Supervisor
    client: Chorale
    namespace: str = "handbook"

    def index(self) -> IndexReport:
        """Index the corpus, and wait for the workers, which then have opened it."""
        limits = self.resources.read_limits
        items = list(read_documents([CORPUS], source="handbook", ids="given", limits=limits))
        documents = SourceDocuments(items, "handbook")
        report = index_corpus(self.resources, documents, namespace=self.namespace)
        self.supervisor.require_ready()
        self.client.retrieve("a first question", namespace=self.namespace, timeout_s=60)
        return report

    def new_key(self) -> str:
        """A key for everything; it ends with the demo."""
        with open_keys(self.resources.settings) as store:
            return store.create(Grant("", "", None, frozenset({"admin"})), name="demo").text


@contextmanager
def demo_installation(output: Output, *, http: Address | None = None) -> Iterator[DemoInstallation]:
    """Start an installation with the default settings; `http` is where the console is served.

    It ends with the block, on SIGTERM, and when the terminal closes; its processes end with this one in any case.
    Raises ServiceError if no Redis can be started.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="chorale-demo-", ignore_cleanup_errors=True) as home:
        for name in [name for name in os.environ if name.startswith("CHORALE_")]:
            if name != "CHORALE_MODEL_THREADS":
                del os.environ[name]
        os.environ.update(_SETTINGS, CHORALE_HOME=home)
        settings, pipeline = load_settings(), load_pipeline(None)
        set_up_logging(level="WARNING", log_format="console", texts=False)
        with running(settings, pipeline, output, http=http) as started:
            resources = Resources(settings, pipeline, started.redis_url)
            try:
                yield DemoInstallation(resources, started.supervisor, Chorale(started.redis_url))
            finally:
                # A second request kills at once: the folder is deleted, so nothing needs an orderly end.
                started.supervisor.request_stop()
                started.supervisor.request_stop()
