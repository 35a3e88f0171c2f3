"""Any sentence-transformers model, with its own library, on the CPU or on CUDA."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from inference.embedding.text_embedder import Progress, TextEmbedder
from inference.lazy_value import LazyValue
from inference.model_folder.model_files import SAFETENSORS, model_folder, safetensors_files
from inference.model_folder.word_pieces import batches_by_length
from models.documents import Matrix
from models.errors import InvalidAnswer, ModelMissing

MAX_TOKENS = {"cpu": 2_048, "cuda": 32_768}
"""Maximum tokens of one run, padding included, by kind of device."""


class SentenceTransformersEmbedder(TextEmbedder):
    """The embedder `sentence_transformers`: needs PyTorch.  It computes in fp32, as `onnx` does."""

    PRECISIONS = ("fp32",)
    DEVICES = ("cpu", "cuda", "mps")

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._library = LazyValue(self._load)

    def weight_files(self) -> list[Path]:
        return safetensors_files(model_folder(self.name, SAFETENSORS))

    def _vectors(self, texts: list[str], progress: Progress | None) -> Matrix:
        library = self._library()
        max_tokens = MAX_TOKENS.get(str(library.device.type), MAX_TOKENS["cpu"])
        vectors = np.empty((len(texts), self.dimension), np.float32)
        lengths = [len(row) for row in self.pieces.read(texts)]
        for batch in batches_by_length(lengths, max_tokens=max_tokens):
            try:
                found = library.encode(
                    [texts[at] for at in batch],
                    prompt="",
                    batch_size=len(batch),
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
            except RuntimeError as error:
                raise InvalidAnswer(f"{self.name}: PyTorch failed: {error}") from error
            if found.shape[1] != self.dimension:
                raise InvalidAnswer(f"{self.name}: {self.dimension} numbers expected, {found.shape[1]} given")
            vectors[batch] = found
            if progress is not None:
                progress(len(batch))
        return vectors

    def _load(self) -> Any:
        try:
            library = importlib.import_module("sentence_transformers")
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise ModelMissing(
                f"the embedder 'sentence_transformers' needs PyTorch ({error}); `make torch` installs it"
            ) from error
        torch.set_num_threads(self.threads)
        model_folder(self.name, SAFETENSORS)
        try:
            model = library.SentenceTransformer(
                str(self.model.folder),
                device=self.device,
                local_files_only=True,
                model_kwargs={"dtype": torch.float32},
            )
        # The modules raise different exceptions for files that do not fit.
        except Exception as error:
            raise ModelMissing(f"{self.model.folder} cannot be loaded: {error}") from error
        model.max_seq_length = self.pieces.max_length
        return model
