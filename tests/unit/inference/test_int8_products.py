"""The product of a graph in int8, run alone: each row of x has its own scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inference.onnx.graph import CONTRIB, OPSET, BertGraph, Builder
from inference.onnx.models import bert_session
from models.onnx_messages import FLOAT, model, port, tensor

Rows = NDArray[np.float32]


def product(x: Rows, matrix: Rows) -> Rows:
    build = Builder("int8")
    build.op("Identity", [build.product("x", "matrix", matrix)], output="y")
    promised = [tensor(name, value, has_data=False) for name, value in build.weights.items()]
    ports = [port("x", FLOAT, ["rows", "width"])], port("y", FLOAT, ["rows", "columns"])
    file = model(build.nodes, [*build.constants.values(), *promised], *ports, {"": OPSET, CONTRIB: 1})
    y: Rows = bert_session(BertGraph(file, build.weights), Path("y"), 1, "cpu").run(None, {"x": x})[0]
    return y


def rows(*scales: float, seed: int = 1) -> Rows:
    random = np.random.default_rng(seed).standard_normal((len(scales), 384)).astype(np.float32)
    return random * np.array(scales, np.float32)[:, None]


def test_a_product_depends_on_no_other_row() -> None:
    matrix, x = rows(*[1] * 8, seed=2).T.copy(), rows(1e-3, 1, 1e3)
    together = product(x, matrix)
    assert np.array_equal(together, np.concatenate([product(row[None], matrix) for row in x]))
    errors = np.linalg.norm(together - x @ matrix, axis=1) / np.linalg.norm(x @ matrix, axis=1)
    assert errors.max() < 0.03, "small rows are as exact as large ones"


def test_the_largest_integers_overflow_on_no_processor() -> None:
    ones = np.ones((1, 384), np.float32)
    for sign in (1, -1):
        assert np.allclose(product(ones, sign * ones.T), sign * 384)


def test_a_row_or_a_column_of_zeros_has_the_product_0() -> None:
    assert not product(rows(0, 0), rows(1, 1).T.copy()).any()
    assert not product(rows(1, 1), rows(0, 0).T.copy()).any()
