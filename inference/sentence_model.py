"""A sentence-transformers folder, read: the encoder, how its tokens are pooled, which prompts it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelMissing

LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Pooling by the flag that folders written before sentence-transformers 5 have."""

WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
"""Names under which architectures have the length of a token's vector."""

POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "ibert",
        "longformer",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""`model_type` of the encoders that count positions from their padding id + 1."""

PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names under which models declare the prompt of a passage; that of a question is always `query`."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """What the JSON files of the folder say; no weights."""

    folder: Path
    transformer: Path
    """The folder with config.json, model.safetensors and tokenizer.json."""
    config: Mapping[str, Any]
    """The transformer's config.json."""
    modules: tuple[tuple[str, Mapping[str, Any]], ...]
    """What follows the transformer: kind ("Pooling", "Dense", "Normalize") and its config."""
    pooling: str
    """`mean`, `cls`, ...; several joined by "+"."""
    dimension: int
    max_length: int
    """Word pieces with special tokens; a longer text is cut off, unless less was asked for."""
    lower_case: bool
    question_prompt: str
    passage_prompt: str

    @property
    def prompts(self) -> tuple[str, str]:
        return self.question_prompt, self.passage_prompt

    @property
    def other_modules(self) -> tuple[str, ...]:
        """Kinds of the modules that do more than pool and normalise."""
        return tuple(kind for kind, _ in self.modules if kind not in ("Pooling", "Normalize"))

    @property
    def has_pooling(self) -> bool:
        return any(kind == "Pooling" for kind, _ in self.modules)

    @property
    def pools_prompt(self) -> bool:
        """Whether the tokens of a prompt are pooled with the others."""
        return all(config.get("include_prompt", True) for kind, config in self.modules if kind == "Pooling")

    @property
    def padding_id(self) -> int:
        return int(self.config.get("pad_token_id") or 0)

    @property
    def positions(self) -> int | None:
        """The longest input that the weights allow, special tokens included; None: no bound of its own."""
        return _positions(self.config)


def read_sentence_model(
    folder: Path,
    *,
    question_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> SentenceModel:
    """Read the folder; what is given here goes before what the folder says.

    Raises ModelMissing if it is no such folder.
    """
    listed = _read(folder / "modules.json", None)
    if listed is None:
        # A bare encoder: sentence-transformers itself takes the mean of its tokens.
        listed = [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": ""}]
    # Kinds have moved between packages over the years; their last name has not.
    paths = [(str(entry["type"]).rsplit(".", 1)[-1], folder / entry.get("path", "")) for entry in listed]
    transformer = paths[0][1]
    config = _read(transformer / "config.json")
    modules = tuple(
        (kind, {} if path == folder else _read(path / "config.json", {})) for kind, path in paths[1:]
    )
    sentence = _read(transformer / "sentence_bert_config.json", {})
    prompts = _read(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    declared_passage = next((prompts[name] for name in PASSAGE_PROMPTS if prompts.get(name)), "")
    return SentenceModel(
        folder=folder,
        transformer=transformer,
        config=config,
        modules=modules,
        pooling=_pooling(modules),
        dimension=_dimension(config, modules),
        max_length=_max_length(transformer, config, sentence),
        lower_case=bool(sentence.get("do_lower_case", False)),
        question_prompt=(prompts.get("query") or "") if question_prompt is None else question_prompt,
        passage_prompt=declared_passage if passage_prompt is None else passage_prompt,
    )


def _read(path: Path, default: Any = ...) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if default is not ...:
            return default
        raise ModelMissing(
            f"{path.parent} is no sentence-transformers model: it has no {path.name}"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelMissing(f"{path} cannot be read: {error}") from error


def _pooling(modules: tuple[tuple[str, Mapping[str, Any]], ...]) -> str:
    config = next((config for kind, config in modules if kind == "Pooling"), {})
    modes = config.get("pooling_mode") or [mode for flag, mode in LEGACY_POOLINGS.items() if config.get(flag)]
    return modes if isinstance(modes, str) else "+".join(modes) or "mean"


def _dimension(config: Mapping[str, Any], modules: tuple[tuple[str, Mapping[str, Any]], ...]) -> int:
    width = next((int(config[name]) for name in WIDTHS if config.get(name)), 0)
    for kind, module in modules:
        if kind == "Pooling":
            width = width or int(module.get("word_embedding_dimension") or 0)
            width *= 1 + _pooling(modules).count("+")
        elif kind == "Dense":
            width = int(module["out_features"])
    return width


def _positions(config: Mapping[str, Any]) -> int | None:
    positions = config.get("max_position_embeddings")
    return int(positions) - first_position(config) if positions else None


def first_position(config: Mapping[str, Any]) -> int:
    """Row of the position table for the first token; those before it are never used."""
    return (
        int(config.get("pad_token_id", 1)) + 1 if config.get("model_type") in POSITIONS_AFTER_PADDING else 0
    )


def _max_length(transformer: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    declared = sentence.get("max_seq_length")
    declared = declared or _read(transformer / "tokenizer_config.json", {}).get("model_max_length")
    lengths = [int(length) for length in (declared, _positions(config)) if length]
    return min(lengths, default=512)
