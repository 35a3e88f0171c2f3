"""Sentence-transformers models by ONNX Runtime, without PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inference.embedding.text_embedder import TextEmbedder
from inference.model_folder.model_files import ONNX, SAFETENSORS
from inference.model_folder.weight_files import onnx_files, weight_files
from inference.model_folder.word_pieces import padded
from inference.onnx_graphs.bert_shape import bert_shape
from models.documents import Matrix
from models.errors import ModelMissing, NotConfigured, StageFailure

MAX_TOKENS = 1024
"""Maximum tokens of one run, padding included.  Larger runs are no faster (measured: 1 to 16 passages of 200 words)."""

Encode = Callable[[NDArray[np.int32], NDArray[np.int32]], Matrix]
"""Ids and mask of shape (batch, length) to vectors of unit length, shape (batch, dimension)."""


class OnnxEmbedder(TextEmbedder):
    """The embedder `onnx`: the BERT family from `model.safetensors`, other models from their own ONNX file.

    Only the BERT family has int8: weights and activations are 8-bit integers.  The scale of the activations is computed
    over the whole run, so each text runs alone: its vector must not depend on other texts.
    """

    PRECISIONS = ("fp32", "int8")
    DEVICES = ("cpu",)
    LIBRARY = "ONNX Runtime"

    def weight_files(self) -> list[Path]:
        """The file to load, then the other files that vectors depend on.  Raises NotConfigured and ModelMissing."""
        return self._files

    def _max_tokens(self, model: Encode) -> int:
        return MAX_TOKENS if self.precision == "fp32" else 1

    def _run(self, model: Encode, texts: list[str], rows: list[list[int]]) -> Matrix:
        return model(*padded(rows, padding_id=self.model.padding_id))

    @cached_property
    def _files(self) -> list[Path]:
        model, refusal = self.model, None
        try:
            bert_shape(model)
        except NotConfigured as not_bert:
            refusal = not_bert
        else:
            self.folder(SAFETENSORS)
            if (weights := model.transformer / "model.safetensors").is_file():
                others = (file for file in weight_files(model.folder) if file.suffix == ".safetensors")
                return [weights, *(file for file in others if file != weights)]
        self.folder(ONNX)
        if not (files := onnx_files(model.folder)):
            raise refusal or ModelMissing(
                f"{model.folder} has neither model.safetensors nor model.onnx; use 'sentence_transformers'"
            )
        return files

    def _load(self) -> Encode:
        path = self.weight_files()[0]
        is_file = path.suffix == ".onnx"
        if is_file and self.precision != "fp32":
            raise NotConfigured(f"the embedder 'onnx' does not support {self.precision} for {path}; use fp32")
        # ONNX and its runtime take up to .25 s to import; a fingerprint needs neither.
        try:
            if is_file:
                from inference.onnx_graphs.onnx_file import OnnxFile

                return OnnxFile(self.model, path, threads=self.threads)
            from inference.onnx_graphs.onnx_bert import OnnxBert

            return OnnxBert(self.model, path, precision=self.precision, threads=self.threads)
        except StageFailure:
            raise
        # The exceptions for damaged files, missing weights and wrong shapes share no base class.
        except Exception as error:
            raise ModelMissing(f"{path} cannot be loaded: {error}") from error
