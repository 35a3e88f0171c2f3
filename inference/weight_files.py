"""The weights in a model's folder: which files the libraries load, which of them are pickles, and the fingerprint of a model.

Embedders with equal fingerprints compute comparable vectors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from inference.sentence_model import SentenceModel
from models.errors import ModelMissing

PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
"""Suffixes of weights in Python's pickle format, which can run code while it is read."""
_NOT_LOADED = ("onnx", "openvino")
"""Folders of weights that PyTorch's libraries do not load."""


def weight_files(folder: Path) -> list[Path]:
    """The files that sentence-transformers would load: each folder's safetensors, or its pickles if it has none."""
    weights: list[Path] = []
    for subfolder in _folders(folder):
        files = [path for path in subfolder.iterdir() if path.is_file()]
        safe = [path for path in files if path.suffix == ".safetensors"]
        weights += safe or [path for path in files if path.suffix in PICKLED]
    return sorted(weights)


def refuse_pickles(files: Sequence[Path], *, allowed: bool) -> None:
    """Raises ModelMissing if one of the files that would be loaded is a pickle, unless they are `allowed`."""
    if not allowed and (pickles := [str(path) for path in files if path.suffix in PICKLED]):
        raise ModelMissing(
            f"{', '.join(pickles)}: pickled weights can run code when they are loaded; save the model as safetensors, "
            "or set CHORALE_PICKLED_WEIGHTS=true if you trust who made them"
        )


def onnx_files(folder: Path) -> list[Path]:
    """The model's ONNX file and its data files; empty if it has none."""
    for path in (folder / "onnx" / "model.onnx", folder / "model.onnx"):
        if path.is_file():
            return [path, *sorted(set(path.parent.glob("model.onnx*")) - {path})]
    return []


def scales_runs(path: Path) -> bool:
    """Whether a file is an ONNX file that computes the scale of 8-bit activations over all texts of a run."""
    if path.suffix != ".onnx":
        return False
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as stored:
        return stored.find(b"DynamicQuantize") >= 0  # a graph's operators stand in the file by name


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, computed once for each version of the file in a process (90 MB take 60 ms)."""
    state = path.stat()
    return _file_sha256(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _file_sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folders(folder: Path) -> Iterator[Path]:
    """The folder and all folders below it, each once; links to folders are followed."""
    pending, seen = [folder], set[Path]()
    while pending:
        subfolder = pending.pop()
        if (real := subfolder.resolve()) not in seen:
            seen.add(real)
            yield subfolder
            pending += [
                path for path in subfolder.iterdir() if path.is_dir() and path.name not in _NOT_LOADED
            ]


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


COMPUTED_AS = {"int8": "int8 by rows"}
"""How a precision is computed, where its name does not say it.  A change of the computation needs a new text here, which changes the
fingerprints."""


def fingerprint(
    model: SentenceModel, weights: Sequence[Path], *, max_length: int, precision: str = "fp32"
) -> str:
    return fingerprints(model, weights, max_length=max_length, precisions=(precision,))[precision]


def fingerprints(
    model: SentenceModel,
    weights: Sequence[Path],
    *,
    max_length: int,
    precisions: Iterable[str],
    dimension: int | None = None,
) -> dict[str, str]:
    """For each precision 32 hex characters over weights, tokenizer, architecture, pooling, prompts, length, precision and,
    where vectors are cut, their `dimension`.

    `weights` are the files in the model's folder that the vectors are computed from.  Embedders that use the same files
    in the same precision have the same fingerprint, whatever their library.
    """
    stated: dict[str, Any] = {
        "weights": {str(path.relative_to(model.folder)): file_sha256(path) for path in weights},
        "tokenizer": _tokenizer_hash(model.transformer / "tokenizer.json"),
        "config": {name: value for name, value in model.config.items() if name not in WITHOUT_EFFECT},
        "pooling": model.pooling,
        # Normalize is left out: vectors are always normalised.
        "modules": [entry for entry in model.modules if entry[0] not in ("Pooling", "Normalize")],
        "prompts": model.prompts,
        "max_length": max_length,
        "lower_case": model.lower_case,
    }
    if dimension not in (None, model.dimension):
        stated["dimension"] = dimension
    whole = {
        precision: {**stated, "precision": COMPUTED_AS.get(precision, precision)} for precision in precisions
    }
    return {
        precision: hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:32]
        for precision, each in whole.items()
    }


def _tokenizer_hash(path: Path) -> str:
    if not path.is_file():
        return ""
    stated = json.loads(path.read_text("utf-8"))
    # We set truncation and padding ourselves.
    for name in ("truncation", "padding"):
        stated.pop(name, None)
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
