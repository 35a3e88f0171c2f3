"""`python -m cli`: all commands."""

from __future__ import annotations

from cli import sweeper, up, worker
from cli.app import app, run

app.command("up")(up.up)
app.command("worker")(worker.worker)
app.command("sweeper")(sweeper.sweeper)

if __name__ == "__main__":
    run()
