"""Which encoders `bert_graph` can build, and the parameters that are not in their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference.sentence_model import SentenceModel, first_position
from models.errors import NotConfigured

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
"""`model_type` of the encoders that differ from BERT only in their numbers."""

ACTIVATIONS: dict[str, str] = {
    "gelu": "BiasGelu",
    "gelu_new": "FastGelu",
    "gelu_pytorch_tanh": "FastGelu",
    "relu": "Relu",
}
"""Operator by `hidden_act`: GELU with the error function, GELU with the tanh approximation, ReLU."""

POOLINGS = ("mean", "cls", "max")
"""The poolings of embedders that are built from their weights."""


@dataclass(frozen=True, slots=True)
class BertShape:
    """The parameters of an encoder that are not in its weights."""

    layers: int
    heads: int
    epsilon: float
    activation: str
    """A key of ACTIVATIONS."""
    first_position: int = 0
    """Row of the position table for the first token: 0 in BERT, padding id + 1 in RoBERTa."""


def bert_shape(model: SentenceModel) -> BertShape:
    """The model's parameters; raises NotConfigured if the graph would not compute exactly this model."""
    exact = {
        **_encoder(model),
        f"the pooling {model.pooling!r}": model.pooling in POOLINGS,
        "pooling without the prompt": model.pools_prompt,
        f"the modules {', '.join(model.other_modules)}": not model.other_modules,
        "vectors before pooling": model.has_pooling,
    }
    check_exact(exact, "embedder", f"{model.folder} without an ONNX file of it")
    return _shape(model)


def classifier_shape(model: SentenceModel) -> BertShape:
    """The parameters of the encoder below a sequence-classification head; raises NotConfigured like `bert_shape`."""
    check_exact(_encoder(model), "reranker", str(model.folder))
    return _shape(model)


def check_exact(exact: Mapping[str, bool], kind: str, where: str) -> None:
    """Raises NotConfigured for the first property of a model with which the result would not be exactly this model's."""
    for what, is_exact in exact.items():
        if not is_exact:
            raise NotConfigured(
                f"the {kind} 'onnx' does not support {what} of {where}; use 'sentence_transformers'"
            )


def _encoder(model: SentenceModel) -> dict[str, bool]:
    """The properties that the graph requires of an encoder, and whether this model has them."""
    config = model.config
    architecture, activation = config.get("model_type"), config.get("hidden_act", "gelu")
    return {
        f"the architecture {architecture!r}": architecture in MODEL_TYPES,
        f"the activation {activation!r}": activation in ACTIVATIONS,
        "relative positions": config.get("position_embedding_type", "absolute") == "absolute",
        "a decoder": not config.get("is_decoder", False),
    }


def _shape(model: SentenceModel) -> BertShape:
    config = model.config
    return BertShape(
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        activation=config.get("hidden_act", "gelu"),
        first_position=first_position(config),
    )
