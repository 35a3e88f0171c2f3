"""What makes two embedders' vectors comparable, as one short hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inference.model_folder.sentence_model import SentenceModel
from inference.model_folder.weight_files import file_sha256

WITHOUT_EFFECT = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "dtype",
        "gradient_checkpointing",
        "hidden_dropout_prob",
        "initializer_range",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
"""Entries of config.json that change no vector."""


def fingerprint(
    model: SentenceModel, weights: Sequence[Path], *, max_length: int, precision: str = "fp32"
) -> str:
    """32 hex characters over weights, tokenizer, architecture, pooling, prompts, length and precision.

    `weights` are the files in the model's folder that the vectors are computed from.  Embedders that use the same files
    in the same precision have the same fingerprint, whatever their library.
    """
    stated: dict[str, Any] = {
        "weights": {str(path.relative_to(model.folder)): file_sha256(path) for path in weights},
        "tokenizer": _tokenizer(model.transformer / "tokenizer.json"),
        "config": {name: value for name, value in model.config.items() if name not in WITHOUT_EFFECT},
        "pooling": model.pooling,
        # Normalize is left out: vectors are always normalised.
        "modules": [entry for entry in model.modules if entry[0] not in ("Pooling", "Normalize")],
        "prompts": model.prompts,
        "max_length": max_length,
        "lower_case": model.lower_case,
        "precision": precision,
    }
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:32]


def _tokenizer(path: Path) -> str:
    if not path.is_file():
        return ""
    stated = json.loads(path.read_text("utf-8"))
    # We set truncation and padding ourselves.
    for name in ("truncation", "padding"):
        stated.pop(name, None)
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
