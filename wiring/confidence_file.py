"""Reads the factors that tell the confidence of an answer: the shipped ones, and the installation's own."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

import fusion
from fusion.confidence import Fitted, FittedFile
from models.errors import WrongDeclaration

SHIPPED = Path(fusion.__file__).with_name("confidence.json")


def read_fitted(own: Path | None) -> tuple[Fitted, ...]:
    """The factors of the file `own`, then the shipped ones.  Raises WrongDeclaration."""
    files = [SHIPPED] if own is None else [own, SHIPPED]
    return tuple(model for file in files for model in _read(file).models)


def _read(file: Path) -> FittedFile:
    try:
        return FittedFile.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except OSError as error:
        why = error.strerror or str(error)
    raise WrongDeclaration(f"CHORALE_CONFIDENCE_FILE: {file} has no factors for the confidence: {why}")
