"""BERT as in its paper (Devlin et al., 2019), text by text in 64 bits: slow, plain, without padding."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[np.float64]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}
POOLINGS: dict[str, Callable[[Array], Array]] = {
    "mean": lambda x: x.mean(axis=0),
    "cls": lambda x: x[0],
    "max": lambda x: x.max(axis=0),
}


def reference_vectors(folder: Path, rows: Sequence[Sequence[int]]) -> Array:
    """The normalised vectors of rows of ids, computed from the files of a sentence-transformers folder."""
    config = json.loads((folder / "config.json").read_text())
    (pooling,) = json.loads((folder / "1_Pooling/config.json").read_text())["pooling_mode"]
    weights = {
        name.removeprefix("bert."): value.astype(np.float64)
        for name, value in load_file(folder / "model.safetensors").items()
    }
    return np.stack([_vector(config, pooling, weights, list(row)) for row in rows])


def _vector(config: dict[str, Any], pooling: str, weights: dict[str, Array], ids: list[int]) -> Array:
    def norm(name: str, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled: Array = centred / np.sqrt(
            (centred**2).mean(axis=-1, keepdims=True) + float(config["layer_norm_eps"])
        )
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(name: str, x: Array) -> Array:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    # RoBERTa's first position is the one after its padding id.
    first = config["pad_token_id"] + 1 if config["model_type"] in ("xlm-roberta", "camembert") else 0
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][first : first + len(ids)]
    x = norm("embeddings.LayerNorm", x + weights["embeddings.token_type_embeddings.weight"][0])
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        heads = []
        for head in np.split(np.arange(config["hidden_size"]), config["num_attention_heads"]):
            query, key, value = (
                linear(f"{at}.attention.self.{part}", x)[:, head] for part in ("query", "key", "value")
            )
            scores = np.exp(query @ key.T / math.sqrt(len(head)))
            heads.append(scores / scores.sum(axis=-1, keepdims=True) @ value)
        attended = linear(f"{at}.attention.output.dense", np.concatenate(heads, axis=-1))
        x = norm(f"{at}.attention.output.LayerNorm", x + attended)
        active = ACTIVATIONS[config["hidden_act"]](linear(f"{at}.intermediate.dense", x))
        x = norm(f"{at}.output.LayerNorm", x + linear(f"{at}.output.dense", active))
    vector: Array = POOLINGS[pooling](x)
    return vector / float(np.linalg.norm(vector))
