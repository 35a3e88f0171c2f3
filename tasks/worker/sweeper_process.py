"""The process `chorale sweeper`: it sweeps, and drains the outbox into the audit tables."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial

from structlog import get_logger

from assembly.kinds import BUILT_IN
from assembly.resources import Resources
from config.logging import set_up_logging
from models.extensions import Kinds
from tasks.registration import make_app
from tasks.sweeping.sweeper import Sweeper
from tasks.worker.heartbeat import Heartbeat
from tasks.worker.self_report import self_report

log = get_logger("chorale.sweeper")

SCHEMA_WAIT_S = 2.0
"""How long a drainer that starts waits for another process to release the audit database, before it tries again."""


def run(*, name: str, only: str | None = None, kinds: Kinds = BUILT_IN) -> None:
    """Run until told to stop; `only` is `sweep` or `drain`, to do one of the two."""
    resources = Resources.from_environment(kinds)
    settings = resources.settings
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    heartbeat = Heartbeat(resources.redis, name, [], hung_after_s=None)
    heartbeat.start()
    duties: list[Callable[[threading.Event], None]] = []
    if only != "drain":
        app = make_app(resources)
        duties.append(Sweeper(resources, app.fanout, interval_s=settings.sweep_interval_s).run)
    if only == "drain" or (only is None and settings.drain):
        # Here, since SQLAlchemy and Alembic take a second to import.
        from audit.database import open_database
        from audit.drainer import Drainer
        from audit.schema import upgrade

        url = settings.audit_database_url
        drainer = Drainer(
            resources.redis,
            open_database(url, must_exist=True),
            keep_texts=settings.audit_texts,
            # In the drainer's thread, so that requests are ended although their rows cannot be written yet.
            prepare=partial(upgrade, url, wait_s=SCHEMA_WAIT_S),
        )
        duties.append(drainer.run)
    threads = [threading.Thread(target=duty, args=(stop,)) for duty in duties]
    for thread in threads:
        thread.start()
    heartbeat.about, heartbeat.ready = self_report(resources), True
    log.info("ready", name=name, duties=len(duties))
    stop.wait()
    for thread in threads:
        thread.join(timeout=5)
    heartbeat.stop()
