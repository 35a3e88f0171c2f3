"""The tiny encoder of `tests.support.models.tiny_bert` as an ONNX file, in plain operators as exporters write it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper, save_model
from safetensors.numpy import load_file

KINDS = {"int64": TensorProto.INT64, "int32": TensorProto.INT32, "float": TensorProto.FLOAT}


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def op(self, kind: str, *inputs: str, **settings: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **settings))
        return name

    def constant(self, value: object, kind: type = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name


def write_tiny_onnx(
    folder: Path,
    *,
    file: str = "onnx/model.onnx",
    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
    integers: str = "int64",
    output: str = "last_hidden_state",
    width: int | None = None,
    beside: bool = False,
) -> None:
    """Write `file` from the folder's safetensors, which may be removed afterwards.

    The output `sentence_embedding` is the mean of the tokens cut to `width` numbers; `beside` puts the
    weights into a file of their own.
    """
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    graph = _Graph()

    def linear(name: str, x: str) -> str:
        product = graph.op("MatMul", x, graph.constant(weights[f"{name}.weight"].T))
        return graph.op("Add", product, graph.constant(weights[f"{name}.bias"]))

    def norm(name: str, x: str) -> str:
        scale, bias = (graph.constant(weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return graph.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=config["layer_norm_eps"])

    def row(name: str, ids: str) -> str:
        return graph.op("Gather", graph.constant(weights[f"embeddings.{name}.weight"]), ids)

    heads, size = config["num_attention_heads"], config["hidden_size"]
    split = graph.constant([0, 0, heads, size // heads], np.int64)
    joined = graph.constant([0, 0, size], np.int64)

    length = graph.op("Gather", graph.op("Shape", "input_ids"), graph.constant(1, np.int64))
    places = graph.op("Range", graph.constant(0, np.int64), length, graph.constant(1, np.int64))
    types = "token_type_ids" if "token_type_ids" in inputs else graph.op("Sub", "input_ids", "input_ids")
    x = graph.op("Add", row("word_embeddings", "input_ids"), row("position_embeddings", places))
    x = norm("embeddings.LayerNorm", graph.op("Add", x, row("token_type_embeddings", types)))

    mask = graph.op("Cast", "attention_mask", to=TensorProto.FLOAT)
    absent = graph.op("Sub", graph.constant(1), mask)
    absent = graph.op("Unsqueeze", absent, graph.constant([1, 2], np.int64))
    hidden = graph.op("Mul", absent, graph.constant(-1e9))
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            graph.op("Reshape", linear(f"{at}.attention.self.{part}", x), split)
            for part in ("query", "key", "value")
        )
        query = graph.op("Transpose", query, perm=[0, 2, 1, 3])
        key = graph.op("Transpose", key, perm=[0, 2, 3, 1])
        value = graph.op("Transpose", value, perm=[0, 2, 1, 3])
        scores = graph.op("Div", graph.op("MatMul", query, key), graph.constant(math.sqrt(size // heads)))
        shares = graph.op("Softmax", graph.op("Add", scores, hidden), axis=-1)
        attended = graph.op("Transpose", graph.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        attended = linear(f"{at}.attention.output.dense", graph.op("Reshape", attended, joined))
        x = norm(f"{at}.attention.output.LayerNorm", graph.op("Add", x, attended))
        wide = linear(f"{at}.intermediate.dense", x)
        root = graph.op("Erf", graph.op("Div", wide, graph.constant(math.sqrt(2))))
        active = graph.op("Mul", wide, graph.op("Add", root, graph.constant(1)))
        active = graph.op("Mul", active, graph.constant(0.5))
        x = norm(f"{at}.output.LayerNorm", graph.op("Add", x, linear(f"{at}.output.dense", active)))
    if output == "sentence_embedding":
        axis = graph.constant([1], np.int64)
        column = graph.op("Unsqueeze", mask, graph.constant([2], np.int64))
        total = graph.op("ReduceSum", graph.op("Mul", x, column), axis, keepdims=0)
        x = graph.op("Div", total, graph.op("ReduceSum", mask, axis, keepdims=1))
        if width is not None:
            x = graph.op("Slice", x, *(graph.constant([number], np.int64) for number in (0, width, 1)))
    graph.nodes.append(helper.make_node("Identity", [x], [output]))

    tokens = ["batch", "length"]
    shape = ["batch", "width"] if output == "sentence_embedding" else [*tokens, "width"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "encoder",
            [helper.make_tensor_value_info(name, KINDS[integers], tokens) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            initializer=graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    (folder / file).parent.mkdir(exist_ok=True)
    save_model(
        model, folder / file, save_as_external_data=beside, location="model.onnx_data", size_threshold=100
    )
