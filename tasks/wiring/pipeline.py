"""The files that a process reads at its start: the pipeline with the kinds that it may name, and the factors of the confidence."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import ValidationError

import fusion
from config.declarations import Pipeline
from config.pipeline_reader import DEFAULT_FILE, read_pipeline
from fusion.methods import METHODS
from fusion.presets import PRESETS
from models.declarations.extensions import Kinds
from models.errors import WrongDeclaration
from search.kinds import KINDS as STORES
from tasks.branches import hyde, searches

if TYPE_CHECKING:
    from fusion.confidence import Fitted, FittedFile

_BRANCHES = {**searches.KINDS, "hyde": hyde.HYDE}

BUILT_IN = Kinds(
    stores=MappingProxyType(dict(STORES)),
    branches=MappingProxyType(dict(sorted(_BRANCHES.items()))),
    methods=MappingProxyType({method.name: method for method in (*METHODS, *PRESETS)}),
)


def load_pipeline(path: Path | None = None, kinds: Kinds = BUILT_IN) -> Pipeline:
    """The declaration at `path`, by default the embedded one.  `kinds` are the kinds that no package has to offer.  Raises
    WrongDeclaration."""
    return read_pipeline(path or DEFAULT_FILE, kinds)


SHIPPED = Path(fusion.__file__).with_name("confidence.json")


def read_fitted(own: Path | None) -> tuple[Fitted, ...]:
    """The factors of the file `own`, then the shipped ones.  Raises WrongDeclaration."""
    files = [SHIPPED] if own is None else [own, SHIPPED]
    return tuple(model for file in files for model in _read(file).models)


def _read(file: Path) -> FittedFile:
    from fusion.confidence import FittedFile

    try:
        return FittedFile.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except OSError as error:
        why = error.strerror or str(error)
    raise WrongDeclaration(f"CHORALE_CONFIDENCE_FILE: {file} has no factors for the confidence: {why}")
