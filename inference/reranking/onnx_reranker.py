"""BERT-family cross-encoders by ONNX Runtime, without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.model_folder.sentence_model import SentenceModel
from inference.onnx_graphs.bert_shape import classifier_shape
from inference.reranking.pair_reranker import Ids, Logits, PairReranker
from models.errors import ModelMissing, NotConfigured, StageFailure


class OnnxReranker(PairReranker):
    """The reranker `onnx`: the BERT family from `model.safetensors`, in fp32."""

    def _load(self) -> Logits:
        classifier_shape(self.model)
        path = self.model.transformer / "model.safetensors"
        if path not in self.weight_files():
            raise ModelMissing(f"{self.model.folder} has no model.safetensors; use 'sentence_transformers'")
        try:
            return _OnnxClassifier(self.model, path, threads=self.threads)
        except StageFailure:
            raise
        # The exceptions for damaged files and wrong shapes share no base class.
        except Exception as error:
            raise ModelMissing(f"{path} cannot be loaded: {error}") from error


class _OnnxClassifier:
    def __init__(self, model: SentenceModel, path: Path, *, threads: int) -> None:
        # ONNX and its runtime take .25 s to import; a fingerprint needs neither.
        from safetensors import safe_open

        from inference.onnx_graphs.bert_classifier import classifier_graph
        from inference.onnx_graphs.bert_graph import under
        from inference.onnx_graphs.onnx_bert import bert_session, encoder_prefix

        with safe_open(path, "numpy") as weights:
            prefix, stored = encoder_prefix(weights), frozenset(weights.keys())

            def read(name: str) -> NDArray[Any]:
                if name not in stored:
                    raise NotConfigured(
                        f"{path} lacks {name}: a model without all its weights ranks at random"
                    )
                return np.asarray(weights.get_tensor(name), np.float32)

            def read_head(name: str) -> NDArray[Any]:
                # The pooler has the encoder's prefix; a classifier has none.
                return read(prefix + name if name.startswith("pooler.") else name)

            kind = str(model.config["model_type"])
            graph = classifier_graph(classifier_shape(model), kind, under(prefix, read), read_head)
        self._session = bert_session(graph, threads)
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    def __call__(self, ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
        given = {"input_ids": ids, "segments": segments, "mask": mask}
        inputs = {name: values for name, values in given.items() if name in self._inputs}
        logits: NDArray[np.float32] = self._session.run(None, inputs)[0]
        return logits
