"""The declaration of this installation, read with the kinds that are known."""

from __future__ import annotations

from pathlib import Path

from assembly.kinds import BUILT_IN
from config.declarations import Pipeline
from config.pipeline_reader import DEFAULT_FILE, read_pipeline
from models.extensions import Kinds


def load_pipeline(path: Path | None = None, kinds: Kinds = BUILT_IN) -> Pipeline:
    """The declaration at `path`, or the embedded default; raises WrongDeclaration."""
    return read_pipeline(path or DEFAULT_FILE, kinds)
