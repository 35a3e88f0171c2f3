"""Reads a sentence-transformers folder: the encoder, its pooling and its prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from models.errors import ModelMissing, NotConfigured

LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Pooling by its flag in folders from before sentence-transformers 5."""

WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")
"""The names of the entry with the length of a token's vector, which depend on the architecture."""

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
"""`model_type` of the encoders whose positions start at padding id + 1."""

PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""The names that models use for the prompt of a passage; the prompt of a question is always `query`."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """The content of the folder's JSON files."""

    folder: Path
    transformer: Path
    """The folder with config.json, model.safetensors and tokenizer.json."""
    config: Mapping[str, Any]
    """The transformer's config.json."""
    modules: tuple[tuple[str, Mapping[str, Any]], ...]
    """The modules after the transformer: kind ("Pooling", "Dense", "Normalize") and config."""
    pooling: str
    """`mean`, `cls`, …, or several joined by "+"."""
    dimension: int
    max_length: int
    """Maximum word pieces of a text, special tokens included."""
    lower_case: bool
    question_prompt: str
    passage_prompt: str

    @property
    def prompts(self) -> tuple[str, str]:
        return self.question_prompt, self.passage_prompt

    @property
    def other_modules(self) -> tuple[str, ...]:
        """The kinds of modules other than pooling and normalisation."""
        return tuple(kind for kind, _ in self.modules if kind not in ("Pooling", "Normalize"))

    @property
    def has_pooling(self) -> bool:
        return any(kind == "Pooling" for kind, _ in self.modules)

    @property
    def pools_prompt(self) -> bool:
        """Whether pooling includes the tokens of the prompt."""
        return all(config.get("include_prompt", True) for kind, config in self.modules if kind == "Pooling")

    @property
    def padding_id(self) -> int:
        return int(self.config.get("pad_token_id") or 0)

    @property
    def positions(self) -> int | None:
        """The longest input that the weights allow, special tokens included; None: unlimited."""
        return _positions(self.config)


def read_sentence_model(folder: Path, pooling: str = "mean") -> SentenceModel:
    """Read the folder, whose model has that pooling unless its files say another one.

    Raises ModelMissing if it is no such folder, NotConfigured if it brings code or leads out of it.
    """
    listed = _read(folder / "modules.json", None)
    if listed is None:
        # A plain encoder: sentence-transformers, too, takes the mean of the tokens of one that nobody knows.
        listed = [{"type": f"sentence_transformers.{kind}"} for kind in ("Transformer", "Pooling")]
    for entry in listed:
        kind, path = str(entry["type"]), PurePosixPath(entry.get("path", ""))
        if not kind.startswith("sentence_transformers."):
            raise NotConfigured(
                f"{folder / 'modules.json'} names the class {kind}; code of a model is never run"
            )
        if path.is_absolute() or ".." in path.parts:
            raise NotConfigured(
                f"{folder / 'modules.json'} names the folder {path}, which is not inside of it"
            )
    # Versions of sentence-transformers have different packages, but the same class names.
    paths = [(str(entry["type"]).rsplit(".", 1)[-1], folder / entry.get("path", "")) for entry in listed]
    transformer = paths[0][1]
    config = _read(transformer / "config.json")
    modules = tuple(
        (kind, {} if path == folder else _read(path / "config.json", {})) for kind, path in paths[1:]
    )
    sentence = _read(transformer / "sentence_bert_config.json", {})
    prompts = _read(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    return SentenceModel(
        folder=folder,
        transformer=transformer,
        config=config,
        modules=modules,
        pooling=_pooling(modules, pooling),
        dimension=_dimension(config, modules),
        max_length=_max_length(transformer, config, sentence),
        lower_case=bool(sentence.get("do_lower_case", False)),
        question_prompt=prompts.get("query") or "",
        passage_prompt=next((prompts[name] for name in PASSAGE_PROMPTS if prompts.get(name)), ""),
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


def _pooling(modules: tuple[tuple[str, Mapping[str, Any]], ...], otherwise: str = "mean") -> str:
    config = next((config for kind, config in modules if kind == "Pooling"), {})
    modes = config.get("pooling_mode") or [mode for flag, mode in LEGACY_POOLINGS.items() if config.get(flag)]
    return modes if isinstance(modes, str) else "+".join(modes) or otherwise


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
    """The row of the position table for the first token."""
    return (
        int(config.get("pad_token_id", 1)) + 1 if config.get("model_type") in POSITIONS_AFTER_PADDING else 0
    )


def _max_length(transformer: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    declared = sentence.get("max_seq_length")
    declared = declared or _read(transformer / "tokenizer_config.json", {}).get("model_max_length")
    lengths = [int(length) for length in (declared, _positions(config)) if length]
    return min(lengths, default=512)
