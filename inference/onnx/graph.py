"""The computation of a BERT-family encoder or cross-encoder as an ONNX graph, built from the model's own weights.

The graph uses ONNX Runtime's fused operators (EmbedLayerNormalization, Attention, SkipLayerNormalization, BiasGelu)
directly, so it does not depend on a graph optimiser.

In:  `input_ids`, `mask`, and for a cross-encoder of BERT itself `segments`; int32, shape (batch, length), padded on the right.
Out: of an encoder the tokens' vectors, float32, shape (batch, length, width); of a cross-encoder `logits`, float32, shape (batch,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.onnx.shape import ACTIVATIONS, BertShape
from models.onnx_messages import FLOAT, INT32, model, node, port, tensor

Read = Callable[[str], NDArray[Any]]
"""Returns a weight of the model by its name."""

OPSET = 18
CONTRIB = "com.microsoft"

WEIGHT_STEPS, ROW_STEPS, ZERO = 64, 127, 128
"""The largest 8-bit integers of a weight and of a row, and the integer of a row that stands for 0.

A processor without VNNI sums two products in 16 bits, so 2 * (ZERO + ROW_STEPS) * WEIGHT_STEPS must be below 2 ** 15.
"""


@dataclass(slots=True)
class BertGraph:
    """The graph as an ONNX file, and its weights by name, which ONNX Runtime receives separately: so 90 MB are not copied through
    a protobuf, whose limit is 2 GB."""

    model: bytes
    weights: dict[str, NDArray[Any]]


@dataclass(slots=True)
class Builder:
    precision: str
    in_fp32: tuple[str, ...] = ()
    """Matrices whose names end so stay in fp32."""
    constants: dict[str, bytes] = field(default_factory=dict)
    nodes: list[bytes] = field(default_factory=list)
    weights: dict[str, NDArray[Any]] = field(default_factory=dict)

    def weight(self, name: str, value: NDArray[Any]) -> str:
        self.weights[name] = np.ascontiguousarray(value)
        return name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Put a value into the graph itself, where shape inference can read it."""
        self.constants[name] = tensor(name, value, has_data=True)
        return name

    def op(self, kind: str, inputs: list[str], *, domain: str = "", output: str = "", **settings: Any) -> str:
        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, [name], name=name, domain=domain, **settings))
        return name

    def fused(self, kind: str, inputs: list[str], **settings: Any) -> str:
        return self.op(kind, inputs, domain=CONTRIB, **settings)

    def product(self, x: str, name: str, matrix: NDArray[np.float32]) -> str:
        """x times `matrix`, shape (in, out).

        In int8 each row of x and each column of `matrix` has its own scale.  The product of a row therefore depends on no other row.
        """
        if self.precision == "fp32" or name.endswith(self.in_fp32):
            return self.op("MatMul", [x, self.weight(name, matrix)])
        scale = np.maximum(np.abs(matrix).max(axis=0), np.float32(1e-12)) / np.float32(WEIGHT_STEPS)
        axis = self.constant("row", np.array([-1], np.int64))
        least = self.constant("least", np.array(1e-12, np.float32))
        step = self.constant("step", np.array(1 / ROW_STEPS, np.float32))
        zero = self.constant("zero", np.array(ZERO, np.uint8))
        largest = self.op("Max", [self.op("ReduceMax", [self.op("Abs", [x]), axis]), least])
        rows = self.op("QuantizeLinear", [self.op("Div", [x, largest]), step, zero])
        quantised = self.weight(name, np.rint(matrix / scale).astype(np.int8))
        inputs = [rows, quantised, step, self.weight(f"{name}.scale", scale.astype(np.float32)), zero]
        return self.op("Mul", [self.fused("MatMulIntegerToFloat", inputs), largest])


def bert_graph(shape: BertShape, read: Read, *, precision: str = "fp32") -> BertGraph:
    """Build the graph; `read` gives weights by their names in a `BertModel` ("embeddings.LayerNorm.weight").

    `precision` is `fp32` or `int8`.  In int8, matrices are 8-bit integers and activations are quantised at run time, row by row.
    """
    build = Builder(precision)
    tokens = encoded(build, shape, read)
    return finished(build, ["input_ids", "mask"], tokens, ["batch", "length", "width"])


def encoded(
    build: Builder, shape: BertShape, read: Read, *, with_segments: bool = False, first_only: bool = False
) -> str:
    """Add the encoder; returns the name of the tokens' vectors, shape (batch, length, width).

    `with_segments`: the graph has an input `segments` with each token's type; otherwise every token has type 0.
    `first_only`: only the first token's vector, shape (batch, 1, width); the last layer computes no others.
    """
    x = _embeddings(build, shape, read, with_segments)
    for layer in range(shape.layers):
        is_last = layer == shape.layers - 1
        read_layer = under(f"encoder.layer.{layer}.", read)
        x = _layer(build, shape, read_layer, f"layer.{layer}", x, first_only=first_only and is_last)
    return x


def finished(build: Builder, inputs: list[str], output: str, output_shape: list[str]) -> BertGraph:
    """The graph that was built: int32 inputs of shape (batch, length), one float32 output."""
    promised = [tensor(name, value, has_data=False) for name, value in build.weights.items()]
    file = model(
        build.nodes,
        [*build.constants.values(), *promised],
        [port(name, INT32, ["batch", "length"]) for name in inputs],
        port(output, FLOAT, output_shape),
        {"": OPSET, CONTRIB: 1},
    )
    return BertGraph(file, build.weights)


def under(prefix: str, read: Read) -> Read:
    """Reads the weights whose names begin with the prefix, by the rest of their names."""
    return lambda name: read(prefix + name)


def _embeddings(build: Builder, shape: BertShape, read: Read, with_segments: bool) -> str:
    positions = read("embeddings.position_embeddings.weight")[shape.first_position :]
    types = read("embeddings.token_type_embeddings.weight")
    if not with_segments:
        # Every token of a single text has type 0, so the row of type 0 is added to every position.
        positions = positions + types[0]
    inputs = [
        "input_ids",
        "segments" if with_segments else "",
        build.weight("words", read("embeddings.word_embeddings.weight")),
        build.weight("positions", positions),
        build.weight("types", types) if with_segments else "",
        build.weight("words.norm.weight", read("embeddings.LayerNorm.weight")),
        build.weight("words.norm.bias", read("embeddings.LayerNorm.bias")),
    ]
    name = "embedded"
    # The operator requires a name for its second output, which nothing reads.
    build.nodes.append(
        node(
            "EmbedLayerNormalization",
            inputs,
            [name, "unused_mask"],
            name=name,
            domain=CONTRIB,
            epsilon=shape.epsilon,
        )
    )
    return name


def _layer(build: Builder, shape: BertShape, read: Read, name: str, x: str, *, first_only: bool) -> str:
    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    if first_only:
        tokens, x = x, build.op("Gather", [x, build.constant("first", np.array([0], np.int64))], axis=1)
        sources = (x, tokens, tokens)
        projected = [_linear(build, read, part, source) for part, source in zip(parts, sources, strict=True)]
        attended = _attention(build, shape, projected)
    else:
        attended = _self_attention(build, shape, read, name, x, parts)

    def add_and_norm(product: str, skip: str, source: str, target: str) -> str:
        return build.fused(
            "SkipLayerNormalization",
            [
                product,
                skip,
                build.weight(f"{target}.norm.weight", read(f"{source}.LayerNorm.weight")),
                build.weight(f"{target}.norm.bias", read(f"{source}.LayerNorm.bias")),
                build.weight(f"{target}.bias", read(f"{source}.dense.bias")),
            ],
            epsilon=shape.epsilon,
        )

    merged = build.product(attended, f"{name}.merge", read("attention.output.dense.weight").T)
    x = add_and_norm(merged, x, "attention.output", f"{name}.merge")

    widened = build.product(x, f"{name}.widen", read("intermediate.dense.weight").T)
    widened_bias = build.weight(f"{name}.widen.bias", read("intermediate.dense.bias"))
    operator = ACTIVATIONS[shape.activation]
    if operator == "Relu":
        active = build.op("Relu", [build.op("Add", [widened, widened_bias])])
    else:
        active = build.fused(operator, [widened, widened_bias])
    narrowed = build.product(active, f"{name}.narrow", read("output.dense.weight").T)
    return add_and_norm(narrowed, x, "output", f"{name}.narrow")


def _self_attention(
    build: Builder, shape: BertShape, read: Read, name: str, x: str, parts: Sequence[str]
) -> str:
    matrix = np.concatenate([read(f"{part}.weight").T for part in parts], axis=1)
    bias = build.weight(f"{name}.qkv.bias", np.concatenate([read(f"{part}.bias") for part in parts]))
    if build.precision == "fp32":
        inputs = [x, build.weight(f"{name}.qkv", matrix), bias, "mask"]
        return build.fused("Attention", inputs, num_heads=shape.heads)
    projected = build.op("Add", [build.product(x, f"{name}.qkv", matrix), bias])
    outputs = [f"{projected}.{part}" for part in parts]
    build.nodes.append(node("Split", [projected], outputs, axis=-1, num_outputs=len(outputs)))
    return _attention(build, shape, outputs)


def _attention(build: Builder, shape: BertShape, projected: Sequence[str]) -> str:
    """`projected`: queries, keys and values."""
    return build.fused("MultiHeadAttention", [*projected, "", "mask"], num_heads=shape.heads)


HEADS: dict[str, tuple[str, str]] = {
    "bert": ("pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "classifier.out_proj"),
    "camembert": ("classifier.dense", "classifier.out_proj"),
}
"""The two layers above the first token's vector, by `model_type`; a tanh stands between them."""

WITH_SEGMENTS = frozenset({"bert"})
"""`model_type` of the models that tell question and passage apart by token types."""


def classifier_graph(
    shape: BertShape, model_type: str, read: Read, read_head: Read, *, precision: str = "fp32"
) -> BertGraph:
    """`read` gives weights by their names in a `BertModel`, `read_head` the weights of the layers in HEADS.

    `precision` is as for `bert_graph`, but two parts stay in fp32: the head, which has few weights, and the product with the
    activation, whose outliers cause two thirds of the error of a score.
    """
    build = Builder(precision, (".narrow", *HEADS[model_type]))
    has_segments = model_type in WITH_SEGMENTS
    x = encoded(build, shape, read, with_segments=has_segments, first_only=True)
    dense, out = HEADS[model_type]
    x = build.op("Tanh", [_linear(build, read_head, dense, x)])
    logits = _linear(build, read_head, out, x)
    axes = build.constant("token_and_label", np.array([1, 2], np.int64))
    build.op("Squeeze", [logits, axes], output="logits")
    return finished(
        build, ["input_ids", "mask", *(["segments"] if has_segments else [])], "logits", ["batch"]
    )


def _linear(build: Builder, read: Read, name: str, x: str) -> str:
    matrix: Any = read(f"{name}.weight").T
    return build.op(
        "Add", [build.product(x, name, matrix), build.weight(f"{name}.bias", read(f"{name}.bias"))]
    )
