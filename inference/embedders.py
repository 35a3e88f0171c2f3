"""Embedders: texts become vectors, by ONNX Runtime or by sentence-transformers.

They share prompts, limits, fingerprint and checks (`TextEmbedder`).  A library is imported when its model is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inference.concurrency import LazyValue
from inference.known_models import known_model
from inference.model_files import DEFAULT_TRUST, ONNX, SAFETENSORS, ModelTrust, imported, model_folder
from inference.onnx.shape import bert_shape
from inference.onnx.word_pieces import WordPieces, batches_by_length, padded, whole_characters
from inference.sentence_model import SentenceModel, read_sentence_model
from inference.vectors import normalised
from inference.weight_files import fingerprints, onnx_files, refuse_pickles, scales_runs, weight_files
from models.documents import Matrix
from models.errors import InvalidAnswer, ModelMissing, NotConfigured, StageFailure, WrongDeclaration

Progress = Callable[[int], None]


class TextEmbedder(ABC):
    """An `inference.protocol.Embedder`; reads and downloads nothing before the first use, or `warm`.

    `name` is a folder or a name on the hub; `max_pieces` and the prompts replace the model's own.  `dimensions` cuts the
    vectors (Matryoshka, Kusupati et al. 2022).  `device` None is the best device.  Time limits are ignored.
    Every method and property may raise ModelMissing; embedding raises InvalidAnswer for wrong vectors.
    """

    PRECISIONS: ClassVar[tuple[str, ...]]
    DEVICES: ClassVar[tuple[str, ...]]
    LIBRARY: ClassVar[str]
    """The library that runs the model, as errors name it."""
    knows_words = True

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        device: str | None = None,
        max_pieces: int | None = None,
        precision: str = "fp32",
        question_prompt: str | None = None,
        passage_prompt: str | None = None,
        dimensions: int | None = None,
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
        self._declared_pieces = max_pieces
        self._declared_prompts = (question_prompt, passage_prompt)
        self._declared_dimensions = dimensions
        self._description = LazyValue(self._describe)
        self._loaded = LazyValue(self._load_whole)

    @property
    def fingerprint(self) -> str:
        return self._fingerprints[self.precision]

    @property
    def comparable(self) -> Collection[str]:
        return self._fingerprints.values()

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        model, pieces = self._description()
        return fingerprints(
            model,
            self.weight_files(),
            max_length=pieces.max_length,
            precisions=self.PRECISIONS,
            dimension=self.dimension,
        )

    @cached_property
    def dimension(self) -> int:
        return self._declared_dimensions or self.model.dimension

    @cached_property
    def max_pieces(self) -> int:
        return self.pieces.max_pieces

    @property
    def model(self) -> SentenceModel:
        return self._description()[0]

    @property
    def pieces(self) -> WordPieces:
        return self._description()[1]

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return self._embed(texts, self.model.question_prompt, None)

    def embed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None, timeout_s: float = inf
    ) -> Matrix:
        return self._embed(texts, self.model.passage_prompt, progress)

    def count_pieces(self, text: str) -> int:
        return self.pieces.count(text)

    def warm(self) -> None:
        self.embed_questions(["warm"])

    def folder(self, weights: Sequence[str] = ()) -> Path:
        """The model's folder, with those weights; downloaded if they are missing."""
        return model_folder(self.name, weights, self.trust)

    def _describe(self) -> tuple[SentenceModel, WordPieces]:
        known = known_model(self.name)
        model = read_sentence_model(self.folder(), known.pooling if known else "mean")
        question, passage = (
            own if declared is None else declared
            for own, declared in zip(model.prompts, self._declared_prompts, strict=True)
        )
        model = replace(model, question_prompt=question, passage_prompt=passage)
        dimensions = self._declared_dimensions
        if dimensions is not None and not 1 <= dimensions <= model.dimension:
            raise WrongDeclaration(
                f"dimensions: {dimensions}; the model in {model.folder} has vectors of {model.dimension} numbers"
            )
        return model, WordPieces(model, max_pieces=self._declared_pieces)

    def _embed(self, texts: Sequence[str], prompt: str, progress: Progress | None) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        model, whole = self._loaded(), [prompt + whole_characters(text) for text in texts]
        rows = self.pieces.read(whole)
        vectors = np.empty((len(texts), self.model.dimension), np.float32)
        for batch in batches_by_length([len(row) for row in rows], max_tokens=self._max_tokens(model)):
            try:
                batch_vectors = self._run(model, [whole[at] for at in batch], [rows[at] for at in batch])
            except Exception as error:
                raise InvalidAnswer(f"{self.name}: {self.LIBRARY} failed: {error}") from error
            if batch_vectors.shape[1:] != vectors.shape[1:]:
                raise InvalidAnswer(
                    f"{self.name}: {self.model.dimension} numbers expected, {batch_vectors.shape[1]} given"
                )
            vectors[batch] = batch_vectors
            if progress is not None:
                progress(len(batch))
        if self.dimension < self.model.dimension:
            vectors = normalised(vectors[:, : self.dimension])
        # This comparison also fails for a NaN and for a vector of zeros.
        if not np.all(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3):
            raise InvalidAnswer(f"{self.name}: a vector is not of unit length (NaN, infinite or zero)")
        return vectors

    @abstractmethod
    def weight_files(self) -> list[Path]:
        """The files in the model's folder that vectors are computed from; downloaded if they are missing."""

    def _load_whole(self) -> Any:
        model = self._load()
        # Whoever asked before may have read files that were damaged then.
        self.__dict__.pop("_fingerprints", None)
        return model

    @abstractmethod
    def _load(self) -> Any:
        """The loaded model, which `_max_tokens` and `_run` get."""

    @abstractmethod
    def _max_tokens(self, model: Any) -> int:
        """Maximum tokens of one run, padding included."""

    @abstractmethod
    def _run(self, model: Any, texts: list[str], rows: list[list[int]]) -> Matrix:
        """Vectors of texts that include their prompt, in order; `rows` are their word pieces."""


ONNX_MAX_TOKENS = 1024
"""Maximum tokens of one run, padding included.  Larger runs are no faster (measured: 1 to 16 passages of 200 words)."""

Encode = Callable[[NDArray[np.int32], NDArray[np.int32]], Matrix]
"""Ids and mask of shape (batch, length) to vectors of unit length, shape (batch, dimension)."""


class OnnxEmbedder(TextEmbedder):
    """The embedder `onnx`: the BERT family from `model.safetensors`, other models from their own ONNX file.

    Of the BERT family it makes int8 itself; a file may hold 8-bit integers too, and its precision is called `fp32` here.
    If such a file computes the scale of its activations over the whole run, each text runs alone: its vector must not
    depend on other texts.
    """

    PRECISIONS = ("fp32", "int8")
    DEVICES = ("cpu", "cuda")
    LIBRARY = "ONNX Runtime"

    def weight_files(self) -> list[Path]:
        """The file to load, then the other files that vectors depend on.  Raises NotConfigured and ModelMissing."""
        return self._files

    def _max_tokens(self, model: Encode) -> int:
        return 1 if self._scales_runs else ONNX_MAX_TOKENS

    def _run(self, model: Encode, texts: list[str], rows: list[list[int]]) -> Matrix:
        return model(*padded(rows, padding_id=self.model.padding_id))

    @cached_property
    def _scales_runs(self) -> bool:
        return scales_runs(self.weight_files()[0])

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
                from inference.onnx.models import OnnxFile

                return OnnxFile(self.model, path, threads=self.threads, device=self.device)
            from inference.onnx.models import OnnxBert

            # CUDA multiplies no 8-bit integers.
            device = self.device or ("cpu" if self.precision == "int8" else None)
            return OnnxBert(self.model, path, precision=self.precision, threads=self.threads, device=device)
        except StageFailure:
            raise
        # The exceptions for damaged files, missing weights and wrong shapes share no base class.
        except Exception as error:
            raise ModelMissing(f"{path} cannot be loaded: {error}") from error


TORCH_MAX_TOKENS = {"cpu": 2_048, "cuda": 32_768}
"""Maximum tokens of one run, padding included, by kind of device."""


class SentenceTransformersEmbedder(TextEmbedder):
    """The embedder `sentence_transformers`: needs PyTorch.  It computes in fp32, as `onnx` does."""

    PRECISIONS = ("fp32",)
    DEVICES = ("cpu", "cuda", "mps")
    LIBRARY = "PyTorch"

    def weight_files(self) -> list[Path]:
        files = weight_files(self.folder(SAFETENSORS))
        if self.model.pooling != "mean" and not (self.model.folder / "modules.json").is_file():
            raise NotConfigured(
                f"{self.model.folder} has no modules.json, so that 'sentence_transformers' would take the mean of its "
                f"tokens; the pooling of {self.name} is {self.model.pooling!r}"
            )
        refuse_pickles(files, allowed=self.trust.pickled)
        return files

    def _max_tokens(self, model: Any) -> int:
        return TORCH_MAX_TOKENS.get(str(model.device.type), TORCH_MAX_TOKENS["cpu"])

    def _run(self, model: Any, texts: list[str], rows: list[list[int]]) -> Matrix:
        vectors: Matrix = model.encode(
            texts, prompt="", batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False
        )
        return vectors

    def _load(self) -> Any:
        library, torch = imported("embedder", "sentence_transformers", "torch")
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
