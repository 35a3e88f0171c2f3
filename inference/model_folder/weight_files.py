"""The weights in a model's folder: which files the libraries load, and which of them are pickles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from models.errors import ModelMissing

PICKLED = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
"""Suffixes of weights in Python's pickle format, which can run code while it is read."""
_NOT_LOADED = ("onnx", "openvino")
"""Folders of weights that PyTorch's libraries do not load."""


def weight_files(folder: Path) -> list[Path]:
    """The files that sentence-transformers would load: each folder's safetensors, or its pickles if it has none."""
    found: list[Path] = []
    for one in _folders(folder):
        files = [path for path in one.iterdir() if path.is_file()]
        safe = [path for path in files if path.suffix == ".safetensors"]
        found += safe or [path for path in files if path.suffix in PICKLED]
    return sorted(found)


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
    left, seen = [folder], set[Path]()
    while left:
        one = left.pop()
        if (real := one.resolve()) not in seen:
            seen.add(real)
            yield one
            left += [path for path in one.iterdir() if path.is_dir() and path.name not in _NOT_LOADED]
