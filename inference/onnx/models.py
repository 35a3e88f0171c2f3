"""Encoders by ONNX Runtime: BERT-family ones from their safetensors, others from the model's own ONNX file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import safe_open

from inference.onnx.graph import BertGraph, bert_graph
from inference.onnx.shape import bert_shape, check_exact
from inference.sentence_model import SentenceModel
from inference.vectors import POOLINGS, normalised, pool
from models.documents import Matrix
from models.errors import NotConfigured

log = logging.getLogger("chorale.models")

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads make a single model faster (2.8 instead of 4.3 ms a question), but three models on two cores slower
    # (45 instead of 16 ms), at twice the processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def may_use_cuda(device: str | None) -> bool:
    return CUDA in onnxruntime.get_available_providers() and device != "cpu"


def open_session(
    model: str | bytes, path: Path, options: onnxruntime.SessionOptions, device: str | None
) -> onnxruntime.InferenceSession:
    """A session of the model of `path`; `device` None: CUDA if ONNX Runtime has it here.

    Raises NotConfigured for a CUDA device that is not there.
    """
    kind, _, number = (device or "").partition(":")
    # In its usual mode CUDA multiplies with 10 bits of the mantissa, and other vectors would have one fingerprint.
    cuda = (CUDA, {"device_id": number or "0", "use_tf32": "0"})
    providers = [cuda, CPU] if may_use_cuda(device) else [CPU]
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    # Without a working driver it falls back to the CPU by itself.
    used = session.get_providers()[0]
    if kind == "cuda" and used != CUDA:
        available = ", ".join(onnxruntime.get_available_providers())
        raise NotConfigured(f"device {device!r}: ONNX Runtime runs on {used} here; it has: {available}")
    log.info("%s runs on %s", path, used)
    return session


class OnnxBert:
    """Ids and mask of shape (batch, length) to vectors of shape (batch, dimension), unit length.

    Raises NotConfigured if the graph would not compute exactly this model, and any exception for damaged weights.
    """

    def __init__(
        self, model: SentenceModel, path: Path, *, precision: str, threads: int, device: str | None
    ) -> None:
        with safe_open(path, "numpy") as weights:
            prefix = encoder_prefix(weights)

            def read(name: str) -> NDArray[Any]:
                return np.asarray(weights.get_tensor(prefix + name), np.float32)

            graph = bert_graph(bert_shape(model), read, precision=precision)
        self._session = bert_session(graph, path, threads, device)
        self._pooling = model.pooling

    def __call__(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Matrix:
        [tokens] = self._session.run(None, {"input_ids": ids, "mask": mask})
        return normalised(pool(tokens, mask.astype(np.float32), self._pooling))


def bert_session(
    graph: BertGraph, path: Path, threads: int, device: str | None
) -> onnxruntime.InferenceSession:
    options = session_options(threads)
    # The session copies these values while it loads.
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in graph.weights.values()]
    options.add_external_initializers(list(graph.weights), values)
    return open_session(graph.model, path, options, device)


def encoder_prefix(weights: Any) -> str:
    """The prefix of the encoder's weights in the file: "", "bert.", "roberta."."""
    marker = "embeddings.word_embeddings.weight"
    names: list[str] = list(weights.keys())
    return next((name.removesuffix(marker) for name in names if name.endswith(marker)), "")


REQUIRED_INPUTS = frozenset({"input_ids", "attention_mask"})
INPUTS = REQUIRED_INPUTS | {"token_type_ids"}
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
"""The integer type of an input by ONNX Runtime's name for it."""

TOKEN_OUTPUTS = ("token_embeddings", "last_hidden_state")
TEXT_OUTPUT = "sentence_embedding"
"""The output of files that include pooling and all other modules."""


class OnnxFile:
    """Ids and mask of shape (batch, length) to vectors of shape (batch, dimension), unit length.

    This class pools the tokens as the folder declares; other modules must be part of the file.  Raises NotConfigured
    where the result would not be exactly this model, and any exception for a damaged file.
    """

    def __init__(self, model: SentenceModel, path: Path, *, threads: int, device: str | None) -> None:
        self._session = open_session(str(path), path, session_options(threads), device)
        self._inputs = {entry.name: entry.type for entry in self._session.get_inputs()}
        outputs = {entry.name for entry in self._session.get_outputs()}
        tokens = next((name for name in TOKEN_OUTPUTS if name in outputs), None)
        why_not_pooled = _why_not_pooled(model) if tokens else f"the outputs {', '.join(sorted(outputs))}"
        if why_not_pooled and TEXT_OUTPUT in outputs:
            tokens, why_not_pooled = None, None
        names, kinds = self._inputs.keys(), set(self._inputs.values())
        exact = {
            f"the inputs {', '.join(sorted(names))}": REQUIRED_INPUTS <= names <= INPUTS,
            f"inputs of {', '.join(sorted(kinds))}": kinds <= INTEGERS.keys(),
            "pooling without the prompt": model.pools_prompt,
            f"{why_not_pooled}": why_not_pooled is None,
        }
        check_exact(exact, "embedder", str(path))
        self._output = tokens or TEXT_OUTPUT
        self._pooling = model.pooling if tokens else None

    def __call__(self, ids: NDArray[np.int32], mask: NDArray[np.int32]) -> Matrix:
        arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        inputs = {name: arrays[name].astype(INTEGERS[kind]) for name, kind in self._inputs.items()}
        vectors: Matrix = np.asarray(self._session.run([self._output], inputs)[0], np.float32)
        if self._pooling is not None:
            vectors = pool(vectors, mask.astype(np.float32), self._pooling)
        return normalised(vectors)


def _why_not_pooled(model: SentenceModel) -> str | None:
    if model.other_modules:
        return f"the modules {', '.join(model.other_modules)}"
    if not model.has_pooling:
        return "vectors before pooling"
    if unknown := set(model.pooling.split("+")) - POOLINGS.keys():
        return f"the pooling {min(unknown)!r}"
    return None
