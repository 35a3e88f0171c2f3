"""What no command can mean ends with exit code 2 and one sentence, prints nothing else, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.commands.printed import complaint
from tests.support.command_line import Run

SUBMIT = ("jobs", "submit", "{file}")
CREATE = ("keys", "create", "-n", "docs", "--scope")
ERASE = ("audit", "erase", "--yes")
ONE_OF = "give one of --request, --correlation, --namespace"

WRONG = [
    (("search", "bread", "--filter", "year"), "FIELD=VALUE"),
    (("search", "bread", "--top-k", "0"), "top_k: "),
    (("search", "bread", "--namespace", "No!"), "a namespace is 1-63 lower-case letters"),
    (("index", "{folder}/nowhere"), "does not exist"),
    (("index", "{folder}", "--map", "colour=farbe"), "there is no field 'colour' to map"),
    (("index", "{folder}", "--rebuild", "--where", "workers"), "--where"),
    (("jobs", "submit", "nowhere.csv"), "nowhere.csv: No such file or directory"),
    (("jobs", "submit", "-"), "there is no line"),
    ((*SUBMIT, "-n", "No Such"), "a namespace is 1-63"),
    ((*SUBMIT, "--deadline", "soon"), "'soon' is no time"),
    ((*SUBMIT, "--deadline", "0m"), "from 1s to 365d"),
    ((*SUBMIT, "--options", "[1]"), "not a JSON object"),
    ((*SUBMIT, "--options", '{"namespce": 1}'), "namespce"),
    ((*SUBMIT, "--options", "[" * 50_000), "not JSON"),
    ((*SUBMIT, "-n", "law", "--options", '{"namespace": "docs"}'), "namespace: 'docs'; the job's is 'law'"),
    ((*SUBMIT, "--options", '{"top_k": 0}'), "top_k"),
    ((*SUBMIT, "--format", "jsonl"), "not JSON"),
    ((*SUBMIT, "--weight", "nan"), "weight"),
    ((*SUBMIT, "--on-end", "ftp://example.org"), "the address begins with https://"),
    ((*SUBMIT, "--on-end", "https://example.org/told"), "CHORALE_WEBHOOK_SECRET"),
    ((*SUBMIT, "--on-end", "app.told@app"), "CHORALE_ON_END_QUEUES"),
    ((*SUBMIT, "--on-end", "app.told"), "the address begins with https://"),
    ((*CREATE, "read"), "scope: no read; there are: search:run"),
    ((*CREATE, "search:run", "--expires", "soon"), "is no time"),
    ((*CREATE, "search:run", "--expires", "99999d"), "from 1s to 3650d"),
    ((*CREATE, "search:run", "--filter", "customer"), "is none of: FIELD=VALUE"),
    ((*CREATE, "admin", "--filter", "a=b"), "cannot have one"),
    ((*CREATE, "search:run", "--tenant", "a.b"), "a tenant is 1-63"),
    (
        ("audit", "prune", "--yes", "--older-than", "soon"),
        "'soon' is no time: a whole number and one of s (1 s), m (60 s)",
    ),
    (("audit", "prune", "--yes", "--older-than", "9" * 5_000 + "d"), "is no time"),
    (ERASE, ONE_OF),
    ((*ERASE, "--request", ""), ONE_OF),
    ((*ERASE, "--request", "a", "--namespace", "b"), ONE_OF),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "questions.csv"
    file.write_text("id,text\nq1,what?\n")
    return file


@pytest.mark.parametrize(("arguments", "reason"), WRONG, ids=lambda value: " ".join(value)[:60])
def test_wrong_usage_is_one_sentence(alone: Run, file: Path, arguments: tuple[str, ...], reason: str) -> None:
    words = (word.replace("{file}", str(file)).replace("{folder}", str(file.parent)) for word in arguments)
    sentence = complaint(alone(*words), 2)
    assert reason in " ".join(sentence.replace("│", " ").split())
    assert "Traceback" not in sentence


def test_refused_commands_leave_no_job_and_no_namespace_behind(alone: Run, file: Path) -> None:
    assert alone("jobs", "submit", str(file), "--options", '{"top_k": 0}').returncode == 2
    assert "there are no jobs yet" in alone("jobs", "list").stdout
    assert alone("index", str(file.parent), "--map", "colour=farbe").returncode == 2
    assert "there are no namespaces yet" in alone("namespaces", "list").stdout
