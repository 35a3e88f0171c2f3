"""What makes two embedders' vectors comparable, as one short hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from inference.sentence_model import SentenceModel
from inference.weights import file_sha256

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

WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")


def fingerprint(model: SentenceModel, *, max_length: int, precision: str = "fp32") -> str:
    """32 hex characters over weights, tokenizer, architecture, pooling, prompts, length and precision.

    Equal for both embedders of one model in one precision: which library computes is not part of it.
    """
    stated: dict[str, Any] = {
        "weights": _weights(model.folder),
        "tokenizer": _tokenizer(model.transformer / "tokenizer.json"),
        "config": {name: value for name, value in model.config.items() if name not in WITHOUT_EFFECT},
        "pooling": model.pooling,
        # Normalize is left out, since vectors are normalised with it and without it.
        "modules": [entry for entry in model.modules if entry[0] not in ("Pooling", "Normalize")],
        "prompts": model.prompts,
        "max_length": max_length,
        "lower_case": model.lower_case,
        "precision": precision,
    }
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:32]


def _weights(folder: Path) -> dict[str, str]:
    """Hash by path of what sentence-transformers would load: safetensors where there are any."""
    for pattern in WEIGHT_FILES:
        files = [*folder.glob(pattern), *folder.glob(f"*/{pattern}")]
        files = [file for file in files if file.parent.name not in ("onnx", "openvino")]
        if files:
            return {str(file.relative_to(folder)): file_sha256(file) for file in sorted(files)}
    return {}


def _tokenizer(path: Path) -> str:
    if not path.is_file():
        return ""
    stated = json.loads(path.read_text("utf-8"))
    # Truncation and padding are set by whoever encodes.
    for name in ("truncation", "padding"):
        stated.pop(name, None)
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
