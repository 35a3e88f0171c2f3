"""What all embedders share: prompts, limits, fingerprint, checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from inference.lazy_value import LazyValue
from inference.model_folder.fingerprint import fingerprint
from inference.model_folder.model_files import model_folder
from inference.model_folder.model_trust import DEFAULT_TRUST, ModelTrust
from inference.model_folder.sentence_model import SentenceModel, read_sentence_model
from inference.model_folder.word_pieces import WordPieces, batches_by_length, whole_characters
from models.documents import Matrix
from models.errors import InvalidAnswer, WrongDeclaration

Progress = Callable[[int], None]


class TextEmbedder(ABC):
    """An `inference.protocol.Embedder`; reads and downloads nothing before the first use, or `warm`.

    `name` is a folder or a name on the hub; `max_pieces` replaces the model's own limit.  `device` None is the best device.
    Every method and property may raise ModelMissing; embedding raises InvalidAnswer for wrong vectors.
    """

    PRECISIONS: ClassVar[tuple[str, ...]]
    DEVICES: ClassVar[tuple[str, ...]]
    LIBRARY: ClassVar[str]
    """The library that runs the model, as errors name it."""

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        device: str | None = None,
        max_pieces: int | None = None,
        precision: str = "fp32",
        trust: ModelTrust = DEFAULT_TRUST,
    ) -> None:
        if precision not in self.PRECISIONS:
            raise WrongDeclaration(
                f"unknown precision {precision!r}; there are: {', '.join(self.PRECISIONS)}"
            )
        if device is not None and device.split(":")[0] not in self.DEVICES:
            raise WrongDeclaration(f"unknown device {device!r}; there are: {', '.join(self.DEVICES)}")
        self.name = name
        self.threads = threads
        self.device = device
        self.precision = precision
        self.trust = trust
        self._wanted_pieces = max_pieces
        self._description = LazyValue(self._describe)
        self._loaded = LazyValue(self._load)

    @cached_property
    def fingerprint(self) -> str:
        model, pieces = self._description()
        return fingerprint(model, self.weight_files(), max_length=pieces.max_length, precision=self.precision)

    @cached_property
    def dimension(self) -> int:
        return self.model.dimension

    @cached_property
    def max_pieces(self) -> int:
        return self.pieces.max_pieces

    @property
    def model(self) -> SentenceModel:
        return self._description()[0]

    @property
    def pieces(self) -> WordPieces:
        return self._description()[1]

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        return self._embed(texts, self.model.question_prompt, None)

    def embed_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> Matrix:
        return self._embed(texts, self.model.passage_prompt, progress)

    def count_pieces(self, text: str) -> int:
        return self.pieces.count(text)

    def warm(self) -> None:
        self.embed_questions(["warm"])

    def folder(self, weights: Sequence[str] = ()) -> Path:
        """The model's folder, with those weights; downloaded if they are missing."""
        return model_folder(self.name, weights, self.trust)

    def _describe(self) -> tuple[SentenceModel, WordPieces]:
        model = read_sentence_model(self.folder())
        return model, WordPieces(model, max_pieces=self._wanted_pieces)

    def _embed(self, texts: Sequence[str], prompt: str, progress: Progress | None) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        model, whole = self._loaded(), [prompt + whole_characters(text) for text in texts]
        rows = self.pieces.read(whole)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for batch in batches_by_length([len(row) for row in rows], max_tokens=self._max_tokens(model)):
            try:
                found = self._run(model, [whole[at] for at in batch], [rows[at] for at in batch])
            except Exception as error:
                raise InvalidAnswer(f"{self.name}: {self.LIBRARY} failed: {error}") from error
            if found.shape[1:] != vectors.shape[1:]:
                raise InvalidAnswer(f"{self.name}: {self.dimension} numbers expected, {found.shape[1]} given")
            vectors[batch] = found
            if progress is not None:
                progress(len(batch))
        # This comparison also fails for a NaN and for a vector of zeros.
        if not np.all(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3):
            raise InvalidAnswer(f"{self.name}: a vector is not of unit length (NaN, infinite or zero)")
        return vectors

    @abstractmethod
    def weight_files(self) -> list[Path]:
        """The files in the model's folder that vectors are computed from; downloaded if they are missing."""

    @abstractmethod
    def _load(self) -> Any:
        """The loaded model, which `_max_tokens` and `_run` get."""

    @abstractmethod
    def _max_tokens(self, model: Any) -> int:
        """Maximum tokens of one run, padding included."""

    @abstractmethod
    def _run(self, model: Any, texts: list[str], rows: list[list[int]]) -> Matrix:
        """Vectors of texts that include their prompt, in order; `rows` are their word pieces."""
