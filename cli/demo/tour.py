"""The tour of the demo: each screen asks about `cli.demo.python_docs`, and shows one reason for several branches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.rule import Rule

from cli.answer_view import hits_table, missing_lines, summary, waterfall
from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from chorale_client import Answer
    from rich.console import Console, RenderableType
    from rich.table import Table

    from cli.demo.installation import DemoInstallation

QUESTIONS: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    (
        "Words: only BM25 finds it",
        "nlargest",
        "An exact identifier: one document has the word, and an embedding has never seen it.",
        {},
    ),
    (
        "Meaning: only vectors find it",
        "scratch folder that vanishes afterwards",
        "A paraphrase: the right document says temporary directory and removed, and shares no word with it.",
        {},
    ),
    (
        "A filter, the same in every branch",
        "wait until it is finished",
        "The same words mean threads elsewhere; parent=subprocess keeps to one module, in every branch alike.",
        {"parent": "subprocess"},
    ),
    (
        "Nothing answers, and it shows",
        "symptoms of influenza",
        "BM25 finds no word of it, and the cosines stay below .25; good answers of this model reach .34.",
        {},
    ),
    (
        "Agreement: the fusion beats both",
        "delete directory tree",
        "Words and meaning each put another document first; the one on which they agree is right.",
        {},
    ),
)
"""Title, question, what the screen shows, and filters.  The last question is asked again in the screens that follow."""
PAUSED_WORKER = "vector-1"
PATIENT_S = 20.0
"""Time limit of questions that are not about time, so that a slow machine shows the same as a fast one."""
TIMEOUT_S = 2.0


@dataclass(slots=True)
class Tour:
    """Shows the screens one after the other on one console."""

    console: Console
    installation: DemoInstallation
    number: int = 0

    def show(self) -> None:
        for title, question, why, filters in QUESTIONS:
            self._head(title, question, why)
            answer = self.ask(question, filters=filters, cache="bypass")
            self._print(hits_table(answer.hits), summary(answer))
        self._print(self._ranks(answer))

        why = f"The process {PAUSED_WORKER} is stopped (SIGSTOP), and the question above is asked again."
        self._head("A worker hangs, and the answer still comes on time", question, why)
        self.installation.supervisor.pause(PAUSED_WORKER)
        try:
            answer = self.ask(question, timeout_s=TIMEOUT_S)
        finally:
            self.installation.supervisor.resume(PAUSED_WORKER)
        self._print(self._ranks(answer), waterfall(answer.stages), *missing_lines(answer.degraded))
        self._time(
            answer,
            f" of the {TIMEOUT_S * 1000:,.0f} ms that the caller gave, with the branches that answered.",
        )

        why = f"{PAUSED_WORKER} runs again. The degraded answer was not kept, so all branches are asked."
        self._head("It goes on, and the answer is complete", question, why)
        complete = self.ask(question)
        self._print(self._ranks(complete), waterfall(complete.stages), summary(complete))

        why = "A complete answer is kept until the corpus changes; no branch is asked."
        self._head("Once more: from the cache", question, why)
        # An answer is kept a moment after its request has ended.
        ends_s = time.monotonic() + TIMEOUT_S
        while not (cached := self.ask(question)).cached and time.monotonic() < ends_s:
            time.sleep(0.02)
        self._print(self._ranks(cached))
        self._time(cached, f" instead of {complete.took_ms:,.0f} ms.")

    def ask(self, text: str, **options: Any) -> Answer:
        """Ask the demo's namespace; raises the client's errors."""
        options = {"timeout_s": PATIENT_S, "top_k": 3, "snippet_chars": 160, **options}
        return self.installation.client.retrieve(
            text,
            namespace=self.installation.namespace,
            include=("ids", "metadata", "snippets", "explanation"),
            **options,
        )

    def _ranks(self, answer: Answer) -> Table:
        """The rank of each hit in every branch and after fusion; first ranks are bold."""
        branches = [branch.name for branch in self.installation.resources.pipeline.branches]
        table = plain_table("document", *(f">{name}" for name in branches), ">fused")
        for hit in answer.hits:
            ranks = [hit.branches[name].rank if name in hit.branches else None for name in branches]
            cells = [Text(str(rank or "–"), "bold green" if rank == 1 else "") for rank in (*ranks, hit.rank)]
            table.add_row(Text(hit.document_id, "bold" if hit.rank == 1 else ""), *cells)
        return table

    def _head(self, title: str, question: str, why: str) -> None:
        self.number += 1
        self.console.print()
        self.console.print(
            Rule(Text(f" {self.number}  {title} ", "bold cyan"), align="left", style="cyan dim")
        )
        self._print(Text.assemble(("“", "dim"), (question, "bold"), ("”", "dim")), Text(why))

    def _time(self, answer: Answer, compared: str) -> None:
        took = Text.assemble(("answered  ", "dim"), (f"{answer.took_ms:,.0f} ms", "bold"), compared)
        self._print(took, summary(answer))

    def _print(self, *parts: RenderableType) -> None:
        for part in parts:
            self.console.print(Padding(part, (0, 0, 1, 2), expand=False))
