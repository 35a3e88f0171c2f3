"""Read the pipeline file, with the built-in kinds and those of installed packages."""

from __future__ import annotations

from pathlib import Path

from config.declarations import Pipeline
from config.pipeline_reader import DEFAULT_FILE, read_pipeline
from models.extensions import Kinds
from wiring.kinds import BUILT_IN


def load_pipeline(path: Path | None = None, kinds: Kinds = BUILT_IN) -> Pipeline:
    """The declaration at `path`, by default the embedded one.  `kinds` are the kinds that no package has to offer.  Raises
    WrongDeclaration."""
    return read_pipeline(path or DEFAULT_FILE, kinds)
