"""BERT-family cross-encoders as an ONNX graph: the encoder, and the head that computes one logit for a pair.

In:  `input_ids`, `mask`, and `segments` for BERT itself, int32, shape (batch, length), padded on the right.
Out: `logits`, float32, shape (batch,).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inference.onnx_graphs.bert_graph import BertGraph, Builder, Read, encoded, finished
from inference.onnx_graphs.bert_shape import BertShape

HEADS: dict[str, tuple[str, str]] = {
    "bert": ("pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "classifier.out_proj"),
    "camembert": ("classifier.dense", "classifier.out_proj"),
}
"""The two layers above the first token's vector, by `model_type`; a tanh stands between them."""

WITH_SEGMENTS = frozenset({"bert"})
"""`model_type` of the models that tell question and passage apart by token types."""


def classifier_graph(shape: BertShape, model_type: str, read: Read, read_head: Read) -> BertGraph:
    """`read` gives weights by their names in a `BertModel`, `read_head` the weights of the layers in HEADS."""
    build = Builder("fp32")
    has_segments = model_type in WITH_SEGMENTS
    x = encoded(build, shape, read, with_segments=has_segments)
    dense, out = HEADS[model_type]
    x = build.op("Gather", [x, build.constant("first", np.array(0, np.int64))], axis=1)
    x = build.op("Tanh", [_linear(build, read_head, dense, x)])
    logits = _linear(build, read_head, out, x)
    build.op("Squeeze", [logits, build.constant("label_axis", np.array([1], np.int64))], output="logits")
    return finished(
        build, ["input_ids", "mask", *(["segments"] if has_segments else [])], "logits", ["batch"]
    )


def _linear(build: Builder, read: Read, name: str, x: str) -> str:
    matrix: Any = read(f"{name}.weight").T
    return build.op(
        "Add", [build.product(x, name, matrix), build.weight(f"{name}.bias", read(f"{name}.bias"))]
    )
