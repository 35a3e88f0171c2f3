"""Encoders of any architecture, from the model's own ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from inference.model_folder.sentence_model import SentenceModel
from inference.model_folder.token_pooling import POOLINGS, normalised, pool
from inference.onnx_graphs.bert_shape import check_exact
from inference.onnx_graphs.onnx_session import PROVIDERS, session_options
from models.documents import Matrix

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

    def __init__(self, model: SentenceModel, path: Path, *, threads: int) -> None:
        self._session = onnxruntime.InferenceSession(str(path), session_options(threads), providers=PROVIDERS)
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
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        inputs = {name: given[name].astype(INTEGERS[kind]) for name, kind in self._inputs.items()}
        found: Matrix = np.asarray(self._session.run([self._output], inputs)[0], np.float32)
        if self._pooling is not None:
            found = pool(found, mask.astype(np.float32), self._pooling)
        return normalised(found)


def _why_not_pooled(model: SentenceModel) -> str | None:
    if model.other_modules:
        return f"the modules {', '.join(model.other_modules)}"
    if not model.has_pooling:
        return "vectors before pooling"
    if unknown := set(model.pooling.split("+")) - POOLINGS.keys():
        return f"the pooling {min(unknown)!r}"
    return None
