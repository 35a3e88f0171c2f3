"""Any sentence-transformers model, with its own library, on the CPU or on CUDA."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from inference.embedding.text_embedder import TextEmbedder
from inference.model_folder.model_files import SAFETENSORS
from inference.model_folder.weight_files import refuse_pickles, weight_files
from models.documents import Matrix
from models.errors import ModelMissing

MAX_TOKENS = {"cpu": 2_048, "cuda": 32_768}
"""Maximum tokens of one run, padding included, by kind of device."""


class SentenceTransformersEmbedder(TextEmbedder):
    """The embedder `sentence_transformers`: needs PyTorch.  It computes in fp32, as `onnx` does."""

    PRECISIONS = ("fp32",)
    DEVICES = ("cpu", "cuda", "mps")
    LIBRARY = "PyTorch"

    def weight_files(self) -> list[Path]:
        files = weight_files(self.folder(SAFETENSORS))
        refuse_pickles(files, allowed=self.trust.pickled)
        return files

    def _max_tokens(self, model: Any) -> int:
        return MAX_TOKENS.get(str(model.device.type), MAX_TOKENS["cpu"])

    def _run(self, model: Any, texts: list[str], rows: list[list[int]]) -> Matrix:
        found: Matrix = model.encode(
            texts, prompt="", batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False
        )
        return found

    def _load(self) -> Any:
        try:
            library = importlib.import_module("sentence_transformers")
            torch = importlib.import_module("torch")
        except ImportError as error:
            raise ModelMissing(
                f"the embedder 'sentence_transformers' needs PyTorch ({error}); `make torch` or `pip install sentence-transformers` installs it"
            ) from error
        torch.set_num_threads(self.threads)
        self.weight_files()
        # The model's own sentence_bert_config.json may ask for pickles, and for code in them; ours wins.
        pickles = {"use_safetensors": None if self.trust.pickled else True, "weights_only": True}
        try:
            model = library.SentenceTransformer(
                str(self.model.folder),
                device=self.device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": torch.float32, **pickles},
            )
        # The modules raise different exceptions for files that do not fit.
        except Exception as error:
            raise ModelMissing(f"{self.model.folder} cannot be loaded: {error}") from error
        model.max_seq_length = self.pieces.max_length
        return model
