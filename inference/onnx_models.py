"""Encoders of the BERT family by ONNX Runtime, from their safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import safe_open

from inference.bert_graph import BertGraph, bert_graph
from inference.bert_shape import bert_shape
from inference.sentence_model import SentenceModel
from inference.vectors import POOLINGS, normalised
from models.documents import Matrix

PROVIDERS = ["CPUExecutionProvider"]


def session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads make a single model faster (2.8 instead of 4.3 ms a question), but three models on two cores slower
    # (45 instead of 16 ms), at twice the processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class OnnxBert:
    """Ids and mask of shape (batch, length) to vectors of shape (batch, dimension), unit length.

    Raises NotConfigured if the graph would not compute exactly this model, and any exception for damaged weights.
    """

    def __init__(self, model: SentenceModel, path: Path, *, precision: str, threads: int) -> None:
        with safe_open(path, "numpy") as weights:
            prefix = encoder_prefix(weights)

            def read(name: str) -> NDArray[Any]:
                return np.asarray(weights.get_tensor(prefix + name), np.float32)

            graph = bert_graph(bert_shape(model), read, precision=precision)
        self._session = bert_session(graph, threads)
        self._pool = POOLINGS[model.pooling]

    def __call__(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Matrix:
        [tokens] = self._session.run(None, {"input_ids": ids, "mask": mask})
        return normalised(self._pool(tokens, mask.astype(np.float32)))


def bert_session(graph: BertGraph, threads: int) -> onnxruntime.InferenceSession:
    options = session_options(threads)
    # The session copies these values while it loads.
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in graph.weights.values()]
    options.add_external_initializers(list(graph.weights), values)
    return onnxruntime.InferenceSession(graph.model.SerializeToString(), options, providers=PROVIDERS)


def encoder_prefix(weights: Any) -> str:
    """The prefix of the encoder's weights in the file: "", "bert.", "roberta."."""
    marker = "embeddings.word_embeddings.weight"
    names: list[str] = list(weights.keys())
    return next((name.removesuffix(marker) for name in names if name.endswith(marker)), "")
