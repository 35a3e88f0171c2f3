"""The demo's own installation, and its tour: each screen asks about `cli.demo.python_docs`, and shows the answer and one reason for
several branches."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chorale_client import Chorale
from chorale_client.request import Include
from rich.padding import Padding
from rich.rule import Rule

from cli.answer_view import hits_table, missing_lines, summary, waterfall
from cli.local.processes import running
from cli.terminal import Text, plain_table

if TYPE_CHECKING:
    from chorale_client import Answer
    from rich.console import Console, RenderableType
    from rich.table import Table

    from cli.local.child_process import Output
    from cli.local.ports import Address
    from cli.local.supervisor import Supervisor
    from wiring.resources import Resources


_OURS = {
    "CHORALE_LOG_LEVEL": "WARNING",
    # A worker hangs, and the others answer.
    "CHORALE_LAYOUT": "queues",
    # The demo indexes by itself, and the fewer processes warm up the sooner it begins.
    "CHORALE_WORKER_PROCESSES": "index=0,bulk=0",
    # Twice as fast as fp32: a first look should not take two minutes on a small machine.
    "CHORALE_EMBEDDER_DOCUMENT_PRECISION": "int8",
}


@dataclass(frozen=True, slots=True)
class DemoInstallation:
    """A started installation, which may not be ready yet."""

    resources: Resources
    supervisor: Supervisor
    client: Chorale
    namespace: str = "python"


@contextmanager
def demo_installation(output: Output, *, http: Address | None = None) -> Iterator[DemoInstallation]:
    """An installation in a temporary folder, with the default settings; `output` takes the lines of the workers.  `http` is
    where the console is served.

    It ends with the block, on SIGTERM, and when the terminal closes; its processes end with this one in any case.
    Raises ServiceError if no Redis can be started.
    """
    from config.logging import set_up_logging
    from config.settings import load_settings
    from wiring.pipeline import load_pipeline
    from wiring.resources import Resources

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="chorale-demo-", ignore_cleanup_errors=True) as home:
        for name in [name for name in os.environ if name.startswith("CHORALE_")]:
            if name != "CHORALE_MODEL_THREADS":
                del os.environ[name]
        os.environ.update(_OURS, CHORALE_HOME=home)
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


def operators_key(installation: DemoInstallation) -> str:
    """A new key for everything of the demo; it ends with the demo."""
    from access.grant import Grant
    from access.key_store import KeyStore, KeysUnavailable
    from cli.installation import upgraded_database

    database = upgraded_database(installation.resources.settings, "keys", KeysUnavailable)
    with closing(KeyStore(database)) as store:
        return store.create(Grant("", "", None, frozenset({"admin"})), name="demo").text


LEXICAL, DENSE = "bm25", "vector"
PAUSED_WORKER = "vector-1"
LOW_COSINE = 0.25
"""With this model, a lower cosine means that the passage is about something else; good answers reach .34."""
PATIENT_S = 20.0
"""Time limit of questions that are not about time, so that a slow machine shows the same as a fast one."""
TIMEOUT_S = 2.0
HITS = 3


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    title: str
    text: str
    why: str
    """Shown before the answer."""
    filters: Mapping[str, str] = field(default_factory=dict)


ONLY_WORDS = DemoQuestion(
    "Words: only BM25 finds it",
    "nlargest",
    "An exact identifier: one document has the word, and an embedding has never seen it.",
)
ONLY_MEANING = DemoQuestion(
    "Meaning: only vectors find it",
    "scratch folder that vanishes afterwards",
    "A paraphrase: the right document says temporary directory and removed, and shares no word with it.",
)
AGREEMENT = DemoQuestion(
    "Agreement: the fusion beats both",
    "delete directory tree",
    "Words and meaning each put another document first; the one on which they agree is right.",
)
FILTERED = DemoQuestion(
    "A filter, the same in every branch",
    "wait until it is finished",
    "The same words mean threads elsewhere; a filter keeps to one module, in every branch alike.",
    {"parent": "subprocess"},
)
NOTHING = DemoQuestion(
    "Nothing answers, and it shows",
    "symptoms of influenza",
    "No search engine should pretend: no word matches, and the nearest passages are far away.",
)


@dataclass(slots=True)
class Tour:
    """Shows the screens one after the other on one console."""

    console: Console
    installation: DemoInstallation
    number: int = 0

    def show(self) -> None:
        for question in (ONLY_WORDS, ONLY_MEANING, AGREEMENT, FILTERED, NOTHING):
            self._question(question)
        self._degraded()
        self._resumed_and_cached()

    def ask(self, text: str, **options: Any) -> Answer:
        """Ask the demo's namespace; raises the client's errors."""
        options = {"timeout_s": PATIENT_S, "top_k": HITS, "snippet_chars": 160, **options}
        include: Sequence[Include] = ("ids", "metadata", "snippets", "explanation")
        namespace = self.installation.namespace
        return self.installation.client.retrieve(text, namespace=namespace, include=include, **options)

    def _question(self, question: DemoQuestion) -> None:
        self._head(question.title, question.text, question.why)
        compares = question is AGREEMENT
        filters = dict(question.filters)
        answer = self.ask(
            question.text, filters=filters, top_k=HITS if compares else HITS - 1, cache="bypass"
        )
        for name, value in filters.items():
            self._line(("filter  ", "dim"), (f"{name} = {value}", "bold"))
        self._print(hits_table(answer.hits))
        if compares:
            firsts = [
                f"{name} would put {hit.document_id} first"
                for name in (LEXICAL, DENSE)
                for hit in answer.hits
                if name in hit.branches and hit.branches[name].rank == 1
            ]
            self._print(self._ranks(answer))
            self._line(("alone  ", "dim"), ", ".join(firsts), ".")
        elif question is NOTHING:
            # Where no word matches, vectors alone rank: the best cosine of the hits is the best of the branch.
            cosines = [hit.branches[DENSE].score or 0.0 for hit in answer.hits if DENSE in hit.branches]
            nearest = f"The nearest passage has a cosine of {max(cosines, default=0.0):.2f}"
            word = "a word" if any(LEXICAL in hit.branches for hit in answer.hits) else "no word"
            below = f"below {LOW_COSINE:.2f} it is about something else"
            self._line(("no answer  ", "yellow"), f"BM25 found {word} of it. {nearest}; {below}.")
        elif answer.hits:
            first = answer.hits[0]
            ranks = {name: branch.rank for name, branch in first.branches.items() if branch.rank}
            shown = [
                f"{name} {f'#{ranks[name]}' if name in ranks else 'does not find it'}"
                for name in self._branches
            ]
            self._line(first.document_id, "  ", (" · ".join(shown), "dim"), "  fused ", ("#1", "bold cyan"))
        self._line(summary(answer))
        if filters:
            unfiltered = self.ask(question.text, cache="bypass").hits[0].document_id
            self._line(("without the filter  ", "dim"), unfiltered, " would come first.")

    def _degraded(self) -> None:
        """Ask while the vector worker is stopped."""
        self._head(
            "A worker hangs, and the answer still comes on time",
            AGREEMENT.text,
            f"The process {PAUSED_WORKER} is stopped (SIGSTOP), and the question above is asked again.",
        )
        supervisor = self.installation.supervisor
        supervisor.pause(PAUSED_WORKER)
        try:
            answer = self.ask(AGREEMENT.text, timeout_s=TIMEOUT_S)
        finally:
            supervisor.resume(PAUSED_WORKER)
        self._print(self._ranks(answer), waterfall(answer.stages), *missing_lines(answer.degraded))
        in_time = f" of the {TIMEOUT_S * 1000:,.0f} ms that the caller gave, by the branches that were there."
        self._time(answer, in_time)

    def _resumed_and_cached(self) -> None:
        why = f"{PAUSED_WORKER} runs again. The degraded answer was not kept, so all branches are asked."
        self._head("It goes on, and the answer is whole", AGREEMENT.text, why)
        whole = self.ask(AGREEMENT.text)
        self._print(self._ranks(whole), waterfall(whole.stages), summary(whole))
        why = "A whole answer is kept until the corpus changes; no branch is asked."
        self._head("Once more: from the cache", AGREEMENT.text, why)
        cached = self.ask(AGREEMENT.text)
        self._print(self._ranks(cached))
        self._time(cached, f" instead of {whole.took_ms:,.0f} ms.")

    @property
    def _branches(self) -> list[str]:
        return [branch.name for branch in self.installation.resources.pipeline.branches]

    def _ranks(self, answer: Answer) -> Table:
        """The rank of each hit in every branch and after fusion; first ranks are bold."""
        table = plain_table("document", *(f">{name}" for name in self._branches), ">fused")
        for hit in answer.hits:
            ranks = [hit.branches[name].rank if name in hit.branches else None for name in self._branches]
            cells = [Text(str(rank or "–"), "bold green" if rank == 1 else "") for rank in (*ranks, hit.rank)]
            table.add_row(Text(hit.document_id, "bold" if hit.rank == 1 else ""), *cells)
        return table

    def _head(self, title: str, question: str, why: str) -> None:
        self.number += 1
        title = f" {self.number}  {title} "
        self.console.print()
        self.console.print(Rule(Text(title, "bold cyan"), align="left", style="cyan dim"))
        self._print(Text.assemble(("“", "dim"), (question, "bold"), ("”", "dim")), Text(why))

    def _time(self, answer: Answer, compared: str) -> None:
        self._line(("answered  ", "dim"), (f"{answer.took_ms:,.0f} ms", "bold"), compared)
        self._line(summary(answer))

    def _line(self, *parts: Text | str | tuple[str, str]) -> None:
        self._print(Text.assemble(*parts))

    def _print(self, *parts: RenderableType) -> None:
        for part in parts:
            self.console.print(Padding(part, (0, 0, 1, 2), expand=False))
