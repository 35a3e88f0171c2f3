"""What a command imports on a running pipeline: a person waits for its imports, and they are most of its time."""

from __future__ import annotations

import pytest

from tests.support.new_process import imported
from tests.support.pipelines.pipeline import RunningPipeline

MODELS = "numpy onnxruntime tantivy tokenizers"
REQUEST = "chorale_client.request models.plan"
UNNEEDED = {
    "--help": f"celery chorale_client kombu pydantic redis rich sqlalchemy structlog {MODELS}",
    "search bread": f"alembic amqp celery fastapi kombu models.documents models.hits sqlalchemy structlog {MODELS}",
    "env": f"celery kombu rich sqlalchemy structlog yaml {MODELS} {REQUEST}",
    "status": f"alembic amqp celery kombu sqlalchemy structlog yaml {MODELS} {REQUEST}",
    "namespaces list": f"alembic celery kombu sqlalchemy structlog {MODELS}",
    "jobs list": f"alembic celery kombu monitoring.checks rich.progress sqlalchemy.dialects.postgresql structlog {MODELS}",
}
"""Modules that a command does not import, by its words."""

RUN = """
import sys
from cli.app import run
sys.argv[1:] = {words!r}
try:
    run()
except SystemExit as ended:
    assert not ended.code, ended.code
"""


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, marks=[pytest.mark.slow] if " list" in words else []) for words in UNNEEDED],
)
def test_a_command_imports_only_what_it_needs(words: str, pipeline: RunningPipeline) -> None:
    program = RUN.format(words=words.split())
    assert imported(program, UNNEEDED[words], **pipeline.environment) == []
