"""examples/django with a real Django: a saved article is found, a rolled back or deleted one is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import free_port

FILE = Path(__file__).parents[2] / "examples" / "django" / "articles.py"
BEGIN = f"""
import sys, time
sys.path.insert(0, {str(FILE.parent)!r})
from articles import *

create_tables()

def wait(question, until):
    ends = time.monotonic() + 30
    while not until(found := titles(question)):
        assert time.monotonic() < ends, found
        time.sleep(0.05)
"""


@pytest.fixture
def environ(pipeline: RunningPipeline) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**ours, "CHORALE_REDIS_URL": pipeline.server.tcp_url}


def run(*arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    called = [sys.executable, "-I", *arguments]
    done = subprocess.run(called, env=environ, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done


def test_an_article_is_found_after_it_is_saved_and_not_after_it_is_deleted(environ: dict[str, str]) -> None:
    done = run(str(FILE), environ=environ)
    assert (done.stdout, done.stderr) == ("saved: ['Tea']\ndeleted: []\n", "")


def test_a_rolled_back_article_is_never_handed_in_and_a_changed_one_is_replaced(
    environ: dict[str, str],
) -> None:
    """One worker indexes in order: when it has indexed the later article, it has indexed an earlier one, too."""
    done = run(
        "-c",
        BEGIN
        + """
try:
    with transaction.atomic():
        Article.objects.create(title="Rolled back", text="A zeppelin is an airship.")
        raise RuntimeError
except RuntimeError:
    pass
with transaction.atomic():
    kept = Article.objects.create(title="First title", text="A zeppelin is an airship.")
    kept.title = "Second title"
    kept.save()
wait("zeppelin", lambda found: found == ["Second title"])
print(titles("zeppelin"))
""",
        environ=environ,
    )
    assert (done.stdout, done.stderr) == ("['Second title']\n", "")


def test_articles_saved_and_deleted_while_chorale_was_away_are_handed_in_later(
    environ: dict[str, str],
) -> None:
    done = run(
        "-c",
        BEGIN
        + f"""
import logging
import articles
logging.basicConfig()
gone, kept = (Article.objects.create(title=one, text="A kiwi is a bird.") for one in ("Gone", "Kept"))
wait("kiwi", lambda found: sorted(found) == ["Gone", "Kept"])
there, articles.chorale = articles.chorale, Chorale("redis://127.0.0.1:{free_port()}/0")
gone.delete()
kept.title = "Renamed"
kept.save()
Article.objects.bulk_create([Article(title="New", text="A kiwi is a bird.")])
articles.chorale = there
print(sorted(titles("kiwi")), Deleted.objects.count())
hand_in_all()
wait("kiwi", lambda found: sorted(found) == ["New", "Renamed"])
print(Deleted.objects.count())
""",
        environ=environ,
    )
    assert done.stdout == "['Gone', 'Kept'] 1\n0\n"
    assert "Redis does not answer" in done.stderr


def test_an_article_whose_deletion_was_rolled_back_is_still_found(environ: dict[str, str]) -> None:
    done = run(
        "-c",
        BEGIN
        + """
kept = Article.objects.create(title="Kept", text="A dulcimer has strings.")
try:
    with transaction.atomic():
        kept.delete()
        raise RuntimeError
except RuntimeError:
    pass
Article.objects.create(title="Later", text="A psaltery has strings, too.")
wait("psaltery", lambda found: "Later" in found)
print(titles("dulcimer")[0], Deleted.objects.count())
""",
        environ=environ,
    )
    assert (done.stdout, done.stderr) == ("Kept 0\n", "")
