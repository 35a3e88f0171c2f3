"""BERT-family cross-encoders by ONNX Runtime, without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.bert_shape import classifier_shape
from inference.reranker import Ids, Logits, PairReranker
from inference.sentence_model import SentenceModel
from models.errors import ModelMissing, NotConfigured, StageFailure


class OnnxReranker(PairReranker):
    """The reranker `onnx`: the BERT family from `model.safetensors`, in fp32."""

    DEVICES = ("cpu",)

    def _load(self) -> Logits:
        classifier_shape(self.model)
        path = self.model.transformer / "model.safetensors"
        if path not in self.weight_files():
            raise ModelMissing(f"{self.model.folder} has no model.safetensors; use 'sentence_transformers'")
        try:
            return _OnnxClassifier(self.model, path, threads=self.threads)
        except StageFailure:
            raise
        # A damaged file, a weight too few, shapes that do not fit: their exceptions share no base class.
        except Exception as error:
            raise ModelMissing(f"{path} cannot be loaded: {error}") from error


class _OnnxClassifier:
    def __init__(self, model: SentenceModel, path: Path, *, threads: int) -> None:
        # Not before: ONNX and its runtime take .25 s to import, and who asks for a fingerprint needs neither.
        from safetensors import safe_open

        from inference.bert_classifier import classifier_graph, head_weights
        from inference.onnx_bert import bert_session, encoder_prefix, encoder_reader

        model_type = str(model.config["model_type"])
        with safe_open(path, "numpy") as weights:
            # The pooler belongs to the encoder and has its prefix; a classifier never has one.
            prefix = encoder_prefix(weights)

            def stored(name: str) -> str:
                return prefix + name if name.startswith("pooler.") else name

            missing = [name for name in head_weights(model_type) if stored(name) not in set(weights.keys())]
            if missing:
                raise NotConfigured(
                    f"{path} lacks {', '.join(missing)}: without all its weights it ranks at random"
                )

            def read_head(name: str) -> NDArray[Any]:
                return np.asarray(weights.get_tensor(stored(name)), np.float32)

            graph = classifier_graph(classifier_shape(model), model_type, encoder_reader(weights), read_head)
        self._session = bert_session(graph, threads)
        self._inputs = {entry.name for entry in self._session.get_inputs()}

    def __call__(self, ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
        given = {"input_ids": ids, "segments": segments, "mask": mask}
        inputs = {name: values for name, values in given.items() if name in self._inputs}
        logits: NDArray[np.float32] = self._session.run(None, inputs)[0]
        return logits
