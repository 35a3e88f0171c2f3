"""BERT-family sentence-transformers models by ONNX Runtime, without PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import safe_open

from inference.bert_graph import ACTIVATIONS, POOLINGS, BertShape, Read, bert_graph
from inference.once import Once
from inference.pieces import batches_by_length, padded
from inference.sentence_model import SentenceModel, first_position
from inference.text_embedder import Progress, TextEmbedder
from models.documents import Matrix
from models.errors import InvalidAnswer, ModelMissing, NotConfigured, StageFailure

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")
"""`model_type` of the encoders that `bert_graph` is."""

MAX_TOKENS = 1024
"""Of one run, padding included.  Larger runs are no faster (measured: 1 to 16 passages of 200 words)."""


class OnnxBert(TextEmbedder):
    """The embedder `onnx`.

    In int8 the weights and activations are 8-bit integers; each text then runs alone, since the scale of the
    activations is taken over the whole run and a text's vector must not depend on its neighbours.
    """

    PRECISIONS = ("fp32", "int8")
    DEVICES = ("cpu",)

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._session = Once(self._load)

    def _vectors(self, texts: list[str], progress: Progress | None) -> Matrix:
        session = self._session()
        rows = self.pieces.read(texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        max_tokens = MAX_TOKENS if self.precision == "fp32" else 1
        for batch in batches_by_length([len(row) for row in rows], max_tokens=max_tokens):
            ids, mask = padded([rows[at] for at in batch])
            try:
                vectors[batch] = session.run(None, {"input_ids": ids, "mask": mask})[0]
            except Exception as error:
                raise InvalidAnswer(f"{self.name}: ONNX Runtime failed: {error}") from error
            if progress is not None:
                progress(len(batch))
        return vectors

    def _load(self) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        # Threads that spin for their next operator save a lone model 1.5 ms a question (2.8, not 4.3); where
        # three models share two cores they cost 30 (45, not 16) and twice the processor time.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = self.model.transformer / "model.safetensors"
        try:
            with safe_open(path, "numpy") as weights:
                graph = bert_graph(bert_shape(self.model), _reader(weights), precision=self.precision)
            # The session copies these while it loads; afterwards they are free to go.
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in graph.weights.values()]
            options.add_external_initializers(list(graph.weights), values)
            return onnxruntime.InferenceSession(
                graph.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except StageFailure:
            raise
        # A damaged file, a weight too few, shapes that do not fit: their exceptions share no base class.
        except Exception as error:
            raise ModelMissing(f"{path} cannot be loaded: {error}") from error


def bert_shape(model: SentenceModel) -> BertShape:
    """The model as the graph's shape; raises NotConfigured if the graph would not be exactly this model."""
    config = model.config
    architecture, activation = config.get("model_type"), config.get("hidden_act", "gelu")
    others = [kind for kind, _ in model.modules if kind not in ("Pooling", "Normalize")]
    pooling = next((config for kind, config in model.modules if kind == "Pooling"), {})
    exact = {
        f"the architecture {architecture!r}": architecture in MODEL_TYPES,
        f"the activation {activation!r}": activation in ACTIVATIONS,
        f"the pooling {model.pooling!r}": model.pooling in POOLINGS,
        "pooling without the prompt": pooling.get("include_prompt", True),
        f"the modules {', '.join(others)}": not others,
        "relative positions": config.get("position_embedding_type", "absolute") == "absolute",
        "a decoder": not config.get("is_decoder", False),
        "vectors before pooling": any(kind == "Pooling" for kind, _ in model.modules),
    }
    for what, is_exact in exact.items():
        if not is_exact:
            raise NotConfigured(
                f"the embedder 'onnx' does not do {what} of {model.folder}; use 'sentence_transformers'"
            )
    return BertShape(
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        activation=activation,
        pooling=model.pooling,
        first_position=first_position(config),
    )


def _reader(weights: Any) -> Read:
    """Weights in fp32 by their name in a `BertModel`, whatever prefix the file has before it."""
    marker = "embeddings.word_embeddings.weight"
    names: list[str] = list(weights.keys())
    prefix = next((name.removesuffix(marker) for name in names if name.endswith(marker)), "")

    def read(name: str) -> NDArray[Any]:
        return np.asarray(weights.get_tensor(prefix + name), np.float32)

    return read
