"""Which encoders `bert_graph` is, and what of their shape is not in the weights."""

from __future__ import annotations

from dataclasses import dataclass

from inference.sentence_model import SentenceModel, first_position
from models.errors import NotConfigured

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
"""`model_type` of the encoders that are BERT with other numbers."""

ACTIVATIONS: dict[str, str] = {
    "gelu": "BiasGelu",
    "gelu_new": "FastGelu",
    "gelu_pytorch_tanh": "FastGelu",
    "relu": "Relu",
}
"""Operator by `hidden_act`: GELU by the error function, by its tanh approximation, ReLU."""

POOLINGS = ("mean", "cls", "max")


@dataclass(frozen=True, slots=True)
class BertShape:
    """What is not in the weights themselves."""

    layers: int
    heads: int
    epsilon: float
    activation: str
    """A key of ACTIVATIONS."""
    pooling: str
    """One of POOLINGS."""
    first_position: int = 0
    """Row of the position table for the first token: 0 in BERT, padding id + 1 in RoBERTa."""


def bert_shape(model: SentenceModel) -> BertShape:
    """The model as the graph's shape; raises NotConfigured if the graph would not be exactly this model."""
    config = model.config
    architecture, activation = config.get("model_type"), config.get("hidden_act", "gelu")
    exact = {
        f"the architecture {architecture!r}": architecture in MODEL_TYPES,
        f"the activation {activation!r}": activation in ACTIVATIONS,
        f"the pooling {model.pooling!r}": model.pooling in POOLINGS,
        "relative positions": config.get("position_embedding_type", "absolute") == "absolute",
        "a decoder": not config.get("is_decoder", False),
        "pooling without the prompt": model.pools_prompt,
        f"the modules {', '.join(model.other_modules)}": not model.other_modules,
        "vectors before pooling": model.has_pooling,
    }
    for what, is_exact in exact.items():
        if not is_exact:
            raise NotConfigured(
                f"the embedder 'onnx' does not do {what} of {model.folder} without an ONNX file of it; "
                "use 'sentence_transformers'"
            )
    return BertShape(
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        activation=activation,
        pooling=model.pooling,
        first_position=first_position(config),
    )
