"""The tour of the demo: each scene asks the handbook one question, and shows what every branch finds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.rule import Rule

from cli.answer_view import missing_lines, summary, waterfall
from cli.demo.captions import best_cosine, comparison, unanswered, without_worker
from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from chorale_client import Answer
    from rich.console import Console, RenderableType

    from cli.demo.installation import DemoInstallation

SCENES: tuple[tuple[str, str, str | None, dict[str, str]], ...] = (
    ("A part number", "PX-4471", "seal-kit-px-4471", {}),
    ("Other words than those of the text", "can I bring my pet", "animals", {}),
    ("A filter: source_type=leave", "doctor", "when-you-are-ill", {"source_type": "leave"}),
    ("A question that the handbook does not answer", "recipe for chocolate cake", None, {}),
    ("An emergency", "there is smoke in the engine room", "red-handles", {}),
)
"""Topic, question, id of the text that answers it, filters.  The last question is asked again in the scenes that follow."""
PAUSED_WORKER = "vector-1"
PATIENT_S = 20.0
"""Time limit of questions that are not about time, so that a slow machine shows the same as a fast one."""
TIMEOUT_S = 2.0


@dataclass(slots=True)
class Tour:
    """Shows the scenes one after the other on one console."""

    console: Console
    installation: DemoInstallation
    number: int = 0

    def show(self) -> None:
        cosine = 0.0
        for topic, question, expected, filters in SCENES:
            self._head(topic, question)
            complete = self.ask(question, filters=filters, cache="bypass")
            ranks = self._print_ranks(complete, expected)
            self._print(Text(comparison(*ranks) if expected else unanswered(complete, cosine)))
            cosine = max(cosine, best_cosine(complete))

        self._head(f"The worker {PAUSED_WORKER} hangs (SIGSTOP)", question)
        self.installation.supervisor.pause(PAUSED_WORKER)
        try:
            answer = self.ask(question, timeout_s=TIMEOUT_S)
        finally:
            self.installation.supervisor.resume(PAUSED_WORKER)
        self._print_ranks(answer, expected)
        self._print(waterfall(answer.stages), *missing_lines(answer.degraded))
        self._print(Text(without_worker(answer, complete, TIMEOUT_S)), summary(answer))

        self._head(f"{PAUSED_WORKER} runs again, and the question comes twice", question)
        again = self.ask(question)
        # An answer is kept a moment after its request has ended.
        ends_s = time.monotonic() + TIMEOUT_S
        while not (cached := self.ask(question)).cached and time.monotonic() < ends_s:
            time.sleep(0.02)
        self._print_ranks(again, expected)
        self._print(summary(again), summary(cached))

    def ask(self, text: str, **options: Any) -> Answer:
        """Ask the demo's namespace; raises the client's errors."""
        return self.installation.client.retrieve(
            text,
            namespace=self.installation.namespace,
            include=("ids", "metadata", "snippets", "explanation"),
            **{"timeout_s": PATIENT_S, "top_k": 50, **options},
        )

    def _print_ranks(self, answer: Answer, expected: str | None) -> tuple[dict[str, int | None], int | None]:
        """Print the first texts, those that a branch puts first, and the expected one (✓); return the ranks of the last."""
        names = [branch.name for branch in self.installation.resources.pipeline.branches]
        table = plain_table("", "text", *(f">{name}" for name in names), ">fused")
        expected_ranks: tuple[dict[str, int | None], int | None] = (dict.fromkeys(names), None)
        for hit in answer.hits:
            ranks = {name: hit.branches[name].rank if name in hit.branches else None for name in names}
            if is_expected := hit.document_id == expected:
                expected_ranks = (ranks, hit.rank)
            if is_expected or hit.rank <= 3 or 1 in ranks.values():
                cells = [
                    Text(str(rank or "–"), "bold" if rank == 1 else "")
                    for rank in (*ranks.values(), hit.rank)
                ]
                table.add_row(Text("✓" if is_expected else "", "green"), hit.title, *cells)
        self._print(table)
        return expected_ranks

    def _head(self, topic: str, question: str) -> None:
        self.number += 1
        self.console.print()
        self.console.print(
            Rule(Text(f" {self.number}  {topic} ", "bold cyan"), align="left", style="cyan dim")
        )
        self._print(Text(f"“{question}”", "bold"))

    def _print(self, *parts: RenderableType) -> None:
        for part in parts:
            self.console.print(Padding(part, (0, 0, 1, 2), expand=False))
