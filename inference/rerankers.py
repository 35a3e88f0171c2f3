"""Cross-encoders by ONNX Runtime or by PyTorch.  A library is imported when its model is loaded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.model_files import imported
from inference.onnx.shape import classifier_shape
from inference.pair_reranker import Ids, Logits, PairReranker
from models.errors import ModelMissing, NotConfigured


class OnnxReranker(PairReranker):
    """The reranker `onnx`: the BERT family from `model.safetensors`; in int8 only on the CPU, since CUDA multiplies no
    8-bit integers.

    On the CPU each thread computes whole pairs, one at a time, so nothing is padded.
    """

    PRECISIONS = ("fp32", "int8")

    def _load(self) -> Logits:
        shape = classifier_shape(self.model)
        path = self.model.transformer / "model.safetensors"
        if path not in self.weight_files():
            raise ModelMissing(f"{self.model.folder} has no model.safetensors; use 'sentence_transformers'")
        # ONNX Runtime takes long to import; a fingerprint needs neither.
        from safetensors import safe_open

        from inference.onnx.graph import classifier_graph, under
        from inference.onnx.models import CUDA, bert_session, encoder_prefix, may_use_cuda

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

            precision = "fp32" if may_use_cuda(self.device) else self.precision
            model_type = str(self.model.config["model_type"])
            graph = classifier_graph(shape, model_type, under(prefix, read), read_head, precision=precision)
        session = bert_session(graph, path, 1, self.device)
        self.device = self.device or ("cuda" if session.get_providers()[0] == CUDA else "cpu")
        names = {entry.name for entry in session.get_inputs()}

        def logits(ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
            inputs = {"input_ids": ids, "segments": segments, "mask": mask}
            scores: NDArray[np.float32] = session.run(None, {name: inputs[name] for name in names})[0]
            return scores

        def each_logit(ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
            ends = mask.sum(axis=1)
            rows = ([part[[at], :end] for part in (ids, segments, mask)] for at, end in enumerate(ends))
            return np.concatenate(list(threads.map(lambda row: logits(*row), rows)))

        if self.device != "cpu":
            return logits
        threads = ThreadPoolExecutor(self.threads)
        return each_logit


class CrossEncoderReranker(PairReranker):
    """The reranker `sentence_transformers`: needs PyTorch.  It computes in fp32, as `onnx` does.

    transformers loads the weights because, unlike CrossEncoder, it reports missing ones.
    """

    def _load(self) -> Logits:
        torch, transformers = imported("reranker", "torch", "transformers")
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
        classifier = model.to(device).eval()
        # Architectures without token types refuse this input, or know only one type.
        has_segments = int(getattr(model.config, "type_vocab_size", 0) or 0) > 1

        def logits(ids: Ids, segments: Ids, mask: Ids) -> NDArray[np.float32]:
            inputs = {"input_ids": ids, "attention_mask": mask}
            if has_segments:
                inputs["token_type_ids"] = segments
            with torch.inference_mode():
                tensors = {
                    name: torch.from_numpy(values.astype(np.int64)).to(device)
                    for name, values in inputs.items()
                }
                scores: NDArray[np.float32] = classifier(**tensors).logits[:, 0].float().cpu().numpy()
            return scores

        return logits
