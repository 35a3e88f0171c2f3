"""`python -m cli`: all commands, in the order and groups in which the help shows them."""

from __future__ import annotations

from cli.app import app, run
from cli.commands import (
    audit,
    backup,
    bench,
    cancel,
    delete,
    demo,
    doctor,
    evaluate,
    index,
    namespaces,
    search,
    status,
    sweeper,
    up,
    verify,
    worker,
)

RUN = "Run"
ASK = "Ask"
DOCUMENTS = "Documents"
LOOK_AFTER = "Look after"
MEASURE = "Measure"

app.command("demo", rich_help_panel=RUN)(demo.demo)
app.command("up", rich_help_panel=RUN)(up.up)
app.command("worker", rich_help_panel=RUN)(worker.worker)
app.command("sweeper", rich_help_panel=RUN)(sweeper.sweeper)
app.command("search", rich_help_panel=ASK)(search.search)
app.command("cancel", rich_help_panel=ASK)(cancel.cancel)
app.command("index", rich_help_panel=DOCUMENTS)(index.index)
app.command("delete", rich_help_panel=DOCUMENTS)(delete.delete)
app.command("verify", rich_help_panel=DOCUMENTS)(verify.verify)
app.add_typer(namespaces.namespaces, rich_help_panel=DOCUMENTS)
app.command("status", rich_help_panel=LOOK_AFTER)(status.status)
app.command("doctor", rich_help_panel=LOOK_AFTER)(doctor.doctor)
app.add_typer(audit.audit, rich_help_panel=LOOK_AFTER)
app.command("backup", rich_help_panel=LOOK_AFTER)(backup.backup)
app.command("restore", rich_help_panel=LOOK_AFTER)(backup.restore)
app.command("eval", rich_help_panel=MEASURE)(evaluate.evaluate)
app.add_typer(bench.bench, name="bench", rich_help_panel=MEASURE)

if __name__ == "__main__":
    run()
