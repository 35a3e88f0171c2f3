"""Cross-encoders by ONNX Runtime or by PyTorch.  A library is imported when its model is loaded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.bert_shape import classifier_shape
from inference.pair_reranker import Ids, Logits, PairReranker
from inference.sentence_model import SentenceModel
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

        from inference.bert_graph import classifier_graph, under
        from inference.onnx_models import bert_session, encoder_prefix

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


class CrossEncoderReranker(PairReranker):
    """The reranker `sentence_transformers`: needs PyTorch.  It computes in fp32, as `onnx` does.

    transformers loads the weights because, unlike CrossEncoder, it reports missing ones.
    """

    def _load(self) -> Logits:
        try:
            torch = importlib.import_module("torch")
            transformers = importlib.import_module("transformers")
        except ImportError as error:
            raise ModelMissing(
                f"the reranker 'sentence_transformers' needs PyTorch ({error}); `make torch` or `pip install sentence-transformers` installs it"
            ) from error
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise NotConfigured(
                f"device {self.device!r}: PyTorch finds {torch.cuda.device_count()} CUDA devices on this machine"
            )
        torch.set_num_threads(self.threads)
        model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
            str(self.model.transformer),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=None if self.trust.pickled else True,
            weights_only=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
        if missing := sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}):
            raise NotConfigured(
                f"{self.model.transformer} lacks {', '.join(missing[:5])}: a model without all its weights ranks at random"
            )
        self.device = str(device)
        return _TorchClassifier(torch, model.to(device).eval(), self.device)


class _TorchClassifier:
    def __init__(self, torch: Any, model: Any, device: str) -> None:
        self._torch, self._model, self._device = torch, model, device
        # Architectures without token types refuse this input, or know only one type.
        self._has_segments = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1

    def __call__(self, ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
        given = {"input_ids": ids, "attention_mask": mask}
        if self._has_segments:
            given["token_type_ids"] = segments
        with self._torch.inference_mode():
            inputs = {
                name: self._torch.from_numpy(values.astype(np.int64)).to(self._device)
                for name, values in given.items()
            }
            logits: NDArray[np.float32] = self._model(**inputs).logits[:, 0].float().cpu().numpy()
        return logits
