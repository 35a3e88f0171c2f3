"""The demo's screens: each asks, shows the answer, and returns a sentence if its claim does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chorale_client.request import Include
from rich.padding import Padding
from rich.rule import Rule

from cli.demo import claims
from cli.demo.questions import QUESTIONS, DemoQuestion, Shows
from cli.terminal import Text, plain_table
from cli.views.answer import hits_table, missing_lines, summary, waterfall

if TYPE_CHECKING:
    from chorale_client import Answer
    from rich.console import Console, RenderableType
    from rich.table import Table

    from cli.demo.installation import DemoInstallation

PAUSED_WORKER = "vector-1"
PATIENT_S = 20.0
"""Time limit of questions that are not about time, so that a slow machine shows the same as a fast one."""
TIMEOUT_S = 2.0
_HITS = 3
_AGAIN = next(question for question in QUESTIONS if question.shows is Shows.FUSION)


@dataclass(slots=True)
class Screens:
    """Shows the screens one after the other on one console."""

    console: Console
    installation: DemoInstallation
    number: int = 0

    def ask(self, text: str, **options: Any) -> Answer:
        """Ask the demo's namespace; raises the client's errors."""
        given = {"timeout_s": PATIENT_S, "top_k": _HITS, "snippet_chars": 160, **options}
        include: Sequence[Include] = ("ids", "metadata", "snippets", "explanation")
        return self.installation.client.retrieve(
            text, namespace=self.installation.namespace, include=include, **given
        )

    def question(self, question: DemoQuestion) -> str | None:
        self._head(question.shows, question.text, question.why)
        compares = question.shows is Shows.FUSION
        answer = self.ask(
            question.text,
            filters=dict(question.filters),
            top_k=_HITS if compares else _HITS - 1,
            cache="bypass",
        )
        for field, value in question.filters.items():
            self._say(("filter  ", "dim"), (f"{field} = {value}", "bold"))
        self._show(hits_table(answer.hits))
        if compares:
            self._show(self._ranks(answer))
        self._say(*self._moral(question, answer))
        self._say(summary(answer))
        broken = claims.broken_question(question, answer)
        if question.filters and broken is None:
            without = self.ask(question.text, cache="bypass").hits[0].document_id
            self._say(("without the filter  ", "dim"), without, " would come first.")
            broken = "the filter changes nothing" if without == question.expected else None
        return broken

    def degraded(self) -> str | None:
        """Ask while the vector worker is stopped."""
        self._head(
            "A worker hangs, and the answer still comes on time",
            _AGAIN.text,
            f"The process {PAUSED_WORKER} is stopped (SIGSTOP), and the question above is asked again.",
        )
        supervisor = self.installation.supervisor
        supervisor.pause(PAUSED_WORKER)
        try:
            answer = self.ask(_AGAIN.text, timeout_s=TIMEOUT_S)
        finally:
            supervisor.resume(PAUSED_WORKER)
        self._show(self._ranks(answer), waterfall(answer.stages), *missing_lines(answer.degraded))
        in_time = f" of the {TIMEOUT_S * 1000:,.0f} ms that the caller gave, by the branches that were there."
        self._say_time(answer, in_time)
        return claims.broken_degraded(answer, timeout_s=TIMEOUT_S)

    def resumed(self) -> tuple[Answer, str | None]:
        self._head(
            "It goes on, and the answer is whole",
            _AGAIN.text,
            f"{PAUSED_WORKER} runs again. The degraded answer was not kept, so all branches are asked.",
        )
        answer = self.ask(_AGAIN.text)
        self._show(self._ranks(answer), waterfall(answer.stages))
        self._say(summary(answer))
        return answer, claims.broken_resumed(answer)

    def cached(self, before: Answer) -> str | None:
        self._head(
            "Once more: from the cache",
            _AGAIN.text,
            "A whole answer is kept until the corpus changes; no branch is asked.",
        )
        answer = self.ask(_AGAIN.text)
        self._show(self._ranks(answer))
        self._say_time(answer, f" instead of {before.took_ms:,.0f} ms.")
        return claims.broken_cached(answer, before)

    def _ranks(self, answer: Answer) -> Table:
        """The rank of each hit in every branch and after fusion; first ranks are bold."""
        names = [branch.name for branch in self.installation.resources.pipeline.branches]
        table = plain_table("document", *(f">{name}" for name in names), ">fused")
        for hit in answer.hits:
            ranks = {name: branch.rank for name, branch in hit.branches.items()}
            cells = [_rank(ranks.get(name)) for name in names]
            table.add_row(Text(hit.document_id, "bold" if hit.rank == 1 else ""), *cells, _rank(hit.rank))
        return table

    def _moral(self, question: DemoQuestion, answer: Answer) -> tuple[Text | str | tuple[str, str], ...]:
        if question.expected is None:
            return (
                ("no answer  ", "yellow"),
                f"BM25 found no word of it. The nearest passage has a cosine of {claims.best_cosine(answer):.2f}; "
                f"below {claims.LOW_COSINE:.2f} it is about something else.",
            )
        if question.shows is Shows.FUSION:
            alone = {
                name: hit.document_id
                for hit in answer.hits
                for name, branch in hit.branches.items()
                if branch.rank == 1 and name in (claims.LEXICAL, claims.DENSE)
            }
            told = [f"{name} would put {document_id} first" for name, document_id in sorted(alone.items())]
            return (("alone  ", "dim"), ", ".join(told), ".")
        ranks = claims.ranks_of(question.expected, answer)
        told = [
            f"{branch.name} {f'#{ranks[branch.name]}' if branch.name in ranks else 'does not find it'}"
            for branch in self.installation.resources.pipeline.branches
        ]
        return (question.expected, "  ", (" · ".join(told), "dim"), "  fused ", ("#1", "bold cyan"))

    def _head(self, title: str, question: str, why: str) -> None:
        self.number += 1
        self.console.print()
        self.console.print(
            Rule(Text(f" {self.number}  {title} ", "bold cyan"), align="left", style="cyan dim")
        )
        self._show(Text.assemble(("“", "dim"), (question, "bold"), ("”", "dim")), Text(why))

    def _say(self, *parts: Text | str | tuple[str, str]) -> None:
        self._show(Text.assemble(*parts))

    def _say_time(self, answer: Answer, compared: str) -> None:
        self._say(("answered  ", "dim"), (f"{answer.took_ms:,.0f} ms", "bold"), compared)
        self._say(summary(answer))

    def _show(self, *parts: RenderableType) -> None:
        for part in parts:
            self.console.print(Padding(part, (0, 0, 1, 2), expand=False))


def _rank(rank: int | None) -> Text:
    return Text("–", "dim") if rank is None else Text(str(rank), "bold green" if rank == 1 else "")
