"""Any sentence-transformers CrossEncoder that is a sequence-classification model, by PyTorch, on the CPU or on CUDA."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.reranking.pair_reranker import Ids, Logits, PairReranker
from models.errors import ModelMissing, NotConfigured


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
