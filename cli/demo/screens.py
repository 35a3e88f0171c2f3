"""The demo's screens: each asks, shows the answer, and notes what of its claim does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chorale_client.request import Include
from chorale_client.wire_names import Reason, Stage, Status
from rich.padding import Padding
from rich.rule import Rule

from cli.demo.questions import QUESTIONS, DemoQuestion, Shows
from cli.terminal import Text, plain_table
from cli.views.answer import hits_table, missing_lines, summary, waterfall

if TYPE_CHECKING:
    from chorale_client import Answer
    from rich.console import Console, RenderableType
    from rich.table import Table

    from cli.demo.installation import DemoInstallation

LEXICAL, DENSE = "bm25", "vector"
PAUSED_WORKER = "vector-1"
LOW_COSINE = 0.25
"""With this model, a lower cosine means that the passage is about something else; good answers reach .34."""
LAST_SHOWN_RANK = 10
"""A document below it is not on the first screen and counts as not found."""
PATIENT_S = 20.0
"""Time limit of questions that are not about time, so that a slow machine shows the same as a fast one."""
TIMEOUT_S = 2.0
_HITS = 3
_REPEATED = next(question for question in QUESTIONS if question.shows is Shows.FUSION)


@dataclass(slots=True)
class Screens:
    """Shows the screens one after the other on one console."""

    console: Console
    installation: DemoInstallation
    number: int = 0
    broken: list[str] = field(default_factory=list)
    """The claims that do not hold."""

    def ask(self, text: str, **options: Any) -> Answer:
        """Ask the demo's namespace; raises the client's errors."""
        options = {"timeout_s": PATIENT_S, "top_k": _HITS, "snippet_chars": 160, **options}
        include: Sequence[Include] = ("ids", "metadata", "snippets", "explanation")
        return self.installation.client.retrieve(
            text, namespace=self.installation.namespace, include=include, **options
        )

    def question(self, question: DemoQuestion) -> None:
        self._head(question.shows, question.text, question.why)
        compares = question.shows is Shows.FUSION
        answer = self.ask(
            question.text,
            filters=dict(question.filters),
            top_k=_HITS if compares else _HITS - 1,
            cache="bypass",
        )
        for name, value in question.filters.items():
            self._print_line(("filter  ", "dim"), (f"{name} = {value}", "bold"))
        self._print(hits_table(answer.hits))
        if compares:
            self._print(self._ranks(answer))
        self._claim(answer.status == Status.COMPLETE, f"the answer is {answer.status}")
        ids = [hit.document_id for hit in answer.hits]
        ranks = {name: branch.rank for name, branch in answer.hits[0].branches.items()} if ids else {}
        if question.expected is None:
            self._nothing(answer)
        else:
            self._claim(ids[:1] == [question.expected], f"{question.expected} is not the first of {ids}")
            bm25, vector = (ranks.get(name) or LAST_SHOWN_RANK + 1 for name in (LEXICAL, DENSE))
            holds = {
                Shows.ONLY_BM25: bm25 == 1 and vector > LAST_SHOWN_RANK,
                Shows.ONLY_VECTORS: vector == 1 and bm25 > LAST_SHOWN_RANK,
                Shows.FUSION: min(bm25, vector) > 1,
                Shows.FILTER: all(hit.metadata.get(n) == v for n, v in question.filters.items() for hit in answer.hits),
            }[question.shows]  # fmt: skip
            self._claim(
                holds, f"rank {bm25} in BM25 and {vector} among the vectors, or the filter does not hold"
            )
            if compares:
                self._print_line(("alone  ", "dim"), ", ".join(_firsts(answer)), ".")
            else:
                ranked = [
                    f"{branch.name} {f'#{ranks[branch.name]}' if ranks.get(branch.name) else 'does not find it'}"
                    for branch in self.installation.resources.pipeline.branches
                ]
                self._print_line(
                    question.expected, "  ", (" · ".join(ranked), "dim"), "  fused ", ("#1", "bold cyan")
                )
        self._print_line(summary(answer))
        if question.filters:
            first = self.ask(question.text, cache="bypass").hits[0].document_id
            self._print_line(("without the filter  ", "dim"), first, " would come first.")
            self._claim(first != question.expected, "the filter changes nothing")

    def _nothing(self, answer: Answer) -> None:
        # Where no word matches, vectors alone rank: the best cosine of the hits is the best of the branch.
        cosines = [hit.branches[DENSE].score or 0.0 for hit in answer.hits if DENSE in hit.branches]
        cosine = max(cosines, default=0.0)
        self._claim(cosine < LOW_COSINE and not _hits_of(LEXICAL, answer), "something answers")
        self._print_line(
            ("no answer  ", "yellow"),
            f"BM25 found no word of it. The nearest passage has a cosine of {cosine:.2f}; "
            f"below {LOW_COSINE:.2f} it is about something else.",
        )

    def degraded(self) -> None:
        """Ask while the vector worker is stopped."""
        self._head(
            "A worker hangs, and the answer still comes on time",
            _REPEATED.text,
            f"The process {PAUSED_WORKER} is stopped (SIGSTOP), and the question above is asked again.",
        )
        supervisor = self.installation.supervisor
        supervisor.pause(PAUSED_WORKER)
        try:
            answer = self.ask(_REPEATED.text, timeout_s=TIMEOUT_S)
        finally:
            supervisor.resume(PAUSED_WORKER)
        self._print(self._ranks(answer), waterfall(answer.stages), *missing_lines(answer.degraded))
        in_time = f" of the {TIMEOUT_S * 1000:,.0f} ms that the caller gave, by the branches that were there."
        self._print_time(answer, in_time)
        missing = [(part.where, part.reason) for part in answer.degraded]
        is_alone = missing == [(f"{Stage.SEARCH}.{DENSE}", Reason.NOT_STARTED)]
        self._claim(
            is_alone and bool(answer.hits) and answer.took_ms <= TIMEOUT_S * 1000,
            f"the answer has {len(answer.hits)} hits after {answer.took_ms:.0f} ms and misses {missing}",
        )

    def resumed(self) -> Answer:
        self._head(
            "It goes on, and the answer is whole",
            _REPEATED.text,
            f"{PAUSED_WORKER} runs again. The degraded answer was not kept, so all branches are asked.",
        )
        answer = self.ask(_REPEATED.text)
        self._print(self._ranks(answer), waterfall(answer.stages))
        self._print_line(summary(answer))
        is_whole = answer.status == Status.COMPLETE and _hits_of(DENSE, answer) > 0
        self._claim(is_whole and not answer.cached, f"the answer is {answer.status}, or from the cache")
        return answer

    def cached(self, before: Answer) -> None:
        self._head(
            "Once more: from the cache",
            _REPEATED.text,
            "A whole answer is kept until the corpus changes; no branch is asked.",
        )
        answer = self.ask(_REPEATED.text)
        self._print(self._ranks(answer))
        self._print_time(answer, f" instead of {before.took_ms:,.0f} ms.")
        is_same = [hit.document_id for hit in answer.hits] == [hit.document_id for hit in before.hits]
        self._claim(answer.cached and is_same, "the answer is not the one before, from the cache")

    def _claim(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.broken.append(f"screen {self.number}: {otherwise}")

    def _ranks(self, answer: Answer) -> Table:
        """The rank of each hit in every branch and after fusion; first ranks are bold."""
        names = [branch.name for branch in self.installation.resources.pipeline.branches]
        table = plain_table("document", *(f">{name}" for name in names), ">fused")
        for hit in answer.hits:
            ranks = {name: branch.rank for name, branch in hit.branches.items()}
            cells = [_rank(ranks.get(name)) for name in names]
            table.add_row(Text(hit.document_id, "bold" if hit.rank == 1 else ""), *cells, _rank(hit.rank))
        return table

    def _head(self, title: str, question: str, why: str) -> None:
        self.number += 1
        self.console.print()
        self.console.print(
            Rule(Text(f" {self.number}  {title} ", "bold cyan"), align="left", style="cyan dim")
        )
        self._print(Text.assemble(("“", "dim"), (question, "bold"), ("”", "dim")), Text(why))

    def _print_line(self, *parts: Text | str | tuple[str, str]) -> None:
        self._print(Text.assemble(*parts))

    def _print_time(self, answer: Answer, compared: str) -> None:
        self._print_line(("answered  ", "dim"), (f"{answer.took_ms:,.0f} ms", "bold"), compared)
        self._print_line(summary(answer))

    def _print(self, *parts: RenderableType) -> None:
        for part in parts:
            self.console.print(Padding(part, (0, 0, 1, 2), expand=False))


def _firsts(answer: Answer) -> list[str]:
    """What each of the two branches alone would put first."""
    return [
        f"{name} would put {hit.document_id} first"
        for name in (LEXICAL, DENSE)
        for hit in answer.hits
        if name in hit.branches and hit.branches[name].rank == 1
    ]


def _hits_of(branch: str, answer: Answer) -> int:
    return next((line.n_out or 0 for line in answer.stages if line.stage == f"{Stage.SEARCH}.{branch}"), 0)


def _rank(rank: int | None) -> Text:
    return Text("–", "dim") if rank is None else Text(str(rank), "bold green" if rank == 1 else "")
