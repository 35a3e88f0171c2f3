"""The messages that we write are those that `onnx` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import onnx_messages as messages
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.new_process import printed


def test_a_file_has_the_operators_the_values_and_the_ports_that_onnx_would_write() -> None:
    axes = np.array([[-1, 300]], np.int64)
    written = messages.model(
        [
            messages.node("Gather", ["x", "", "axes"], ["y", "z"], name="first", axis=-1),
            messages.node(
                "Gelu", ["y"], ["out"], name="second", domain="com.microsoft", epsilon=1e-12, heads=12
            ),
        ],
        [
            messages.tensor("axes", axes, has_data=True),
            messages.tensor("words", np.zeros((3, 0), np.int8), has_data=False),
        ],
        [messages.port("x", messages.INT32, ["batch", "length"])],
        messages.port("out", messages.FLOAT, ["batch"]),
        {"": 17, "com.microsoft": 1},
    )
    promised = TensorProto(
        name="words", data_type=TensorProto.INT8, dims=[3, 0], data_location=TensorProto.EXTERNAL
    )
    promised.external_data.add(key="location", value="memory")
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "", "axes"], ["y", "z"], name="first", domain="", axis=-1),
            helper.make_node(
                "Gelu", ["y"], ["out"], name="second", domain="com.microsoft", epsilon=1e-12, heads=12
            ),
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.INT32, ["batch", "length"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch"])],
        initializer=[numpy_helper.from_array(axes, "axes"), promised],
    )
    operators = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    assert onnx.load_from_string(written) == helper.make_model(graph, opset_imports=operators, ir_version=9)


def test_models_compute_and_vectors_are_searched_where_onnx_is_not_installed(tmp_path: Path) -> None:
    for kind, write in (("embedder", write_tiny_bert), ("reranker", write_tiny_cross_encoder)):
        (tmp_path / kind).mkdir()
        write(tmp_path / kind)
    program = f"""
import sys
sys.modules["onnx"] = None
from inference.backends import load_embedder, load_reranker
from search.engines.embedded.vector_segments import _multiplier
for kind, load in (("embedder", load_embedder), ("reranker", load_reranker)):
    load(f"{tmp_path}/{{kind}}", backend="onnx", threads=1).warm()
_multiplier()
print("computed")
"""
    assert printed(program) == ["computed"]
