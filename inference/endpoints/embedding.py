"""An embedder behind HTTP: the OpenAI protocol (OpenAI, vLLM, Ollama, LiteLLM, Infinity), that of TEI, or Pinecone's."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Collection, Sequence
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from inference.concurrency import LazyValue
from inference.endpoints.json_endpoint import ATTEMPTS, BEARER, JsonEndpoint, Key, rows_in_order
from inference.endpoints.language_models import TokenizerFile
from inference.onnx.word_pieces import cut_to, estimated_pieces, whole_characters
from models.batching import in_batches
from models.documents import Matrix
from models.errors import InvalidAnswer, ModelMissing, StageFailure, WrongDeclaration

PATHS = {"openai": "embeddings", "tei": "embed", "pinecone": "embed"}
"""The path below the endpoint's url, by protocol."""
MAX_PIECES = 512
MAX_TEXT_BYTES = 250_000
"""Maximum bytes of an answer for each of its texts: 10,000 numbers as text."""
REQUEST_S = 60.0
"""Maximum seconds of a batch, its further attempts included; a call without a limit may send many batches."""
PATIENT_ATTEMPTS = 8
"""Attempts of a call without a limit, with 25 s of pauses between them: an endpoint that starts again costs no run."""
CHECK_S = 10.0
"""The time limit of `warm` and of the question for the dimension."""


class EndpointEmbedder:
    """An `inference.protocol.Embedder`.  Thread-safe; reads and sends nothing before the first use.

    `url` is the endpoint without the path of PATHS.  `name` is the model that passages are sent to, and questions
    too unless there is a `question_model`.  A batch holds `batch` texts, and `parallel` batches are in flight.
    `dimensions` are declared to the endpoint, and longer vectors are cut (Matryoshka, Kusupati et al. 2022).

    Longer texts than `max_pieces` are cut here; `tokenizer` is the model's `tokenizer.json`, by which they are counted.
    Errors quote neither texts nor the key.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str,
        api: str = "openai",
        api_key: Key = None,
        dimensions: int | None = None,
        question_prompt: str = "",
        passage_prompt: str = "",
        question_model: str | None = None,
        batch: int = 32,
        parallel: int = 4,
        ca_file: str | Path | None = None,
        tokenizer: str | Path | None = None,
        max_pieces: int | None = None,
        add_tokens: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        """`add_tokens` is called with the tokens that the endpoint reports as used, if it reports any.

        Raises WrongDeclaration for an unknown `api`.
        """
        if api not in PATHS:
            raise WrongDeclaration(f"unknown api {api!r}; there are: {', '.join(PATHS)}")
        self.name = name
        self.max_pieces = max_pieces or MAX_PIECES
        self._api = api
        self._question_model = question_model or name
        self._prompts = {"query": question_prompt, "passage": passage_prompt}
        self._dimensions = dimensions
        self._answered: int | None = None
        self._batch, self._parallel = batch, parallel
        self._tokenizer = TokenizerFile(Path(tokenizer)) if tokenizer else None
        self._lock = threading.Lock()
        self._endpoint = LazyValue(
            lambda: JsonEndpoint(
                url=url,
                path=PATHS[api],
                model=" / ".join(dict.fromkeys([name, self._question_model])),
                answer="list of embeddings",
                api_key=api_key,
                key_header=("Api-Key", "") if api == "pinecone" else BEARER,
                max_bytes=MAX_TEXT_BYTES * batch,
                ca_file=ca_file,
                request_s=REQUEST_S,
                add_tokens=add_tokens,
            )
        )

    @property
    def fingerprint(self) -> str:
        """Hash of protocol, models, prompts and declared dimensions; the endpoint may have another model of that name."""
        stated = [self._api, self.name, self._question_model, self._dimensions, *self._prompts.values()]
        return hashlib.sha256(json.dumps(stated).encode()).hexdigest()[:32]

    @property
    def comparable(self) -> Collection[str]:
        return (self.fingerprint,)

    @property
    def dimension(self) -> int:
        """As declared, else that of the endpoint's vectors; the first call may send a text."""
        if self._dimensions is None and self._answered is None:
            self._embed(["dimension"], "passage", timeout_s=CHECK_S)
        return self._dimensions or self._answered or 0

    @property
    def knows_words(self) -> bool:
        return self._tokenizer is not None

    def embed_questions(self, texts: Sequence[str], *, timeout_s: float = inf) -> Matrix:
        return self._embed(texts, "query", timeout_s=timeout_s)

    def embed_passages(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, timeout_s: float = inf
    ) -> Matrix:
        return self._embed(texts, "passage", timeout_s=timeout_s, progress=progress)

    def count_pieces(self, text: str) -> int:
        """An estimate if there is no tokenizer.  Raises ModelMissing if its file cannot be read."""
        return self._tokenizer.count(text) if self._tokenizer else estimated_pieces(text)

    def warm(self) -> None:
        """Embed one text.  Raises ModelMissing for every failure, since the endpoint may still start."""
        try:
            self.embed_questions(["warm"], timeout_s=CHECK_S)
        except StageFailure as failure:
            raise ModelMissing(failure.detail) from failure

    def _embed(
        self,
        texts: Sequence[str],
        side: Literal["query", "passage"],
        *,
        timeout_s: float,
        progress: Callable[[int], None] | None = None,
    ) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        cut = [cut_to(self.max_pieces, whole_characters(text), self.count_pieces) for text in texts]
        # OpenAI refuses an empty text.
        batches = list(in_batches([self._prompts[side] + text or " " for text in cut], self._batch))
        vectors = self._endpoint().all(
            [self._body(side, batch) for batch in batches],
            lambda at, answer: self._vectors(answer, len(batches[at])),
            timeout_s=timeout_s,
            parallel=self._parallel,
            attempts=PATIENT_ATTEMPTS if timeout_s == inf else ATTEMPTS,
            done=(lambda at: progress(len(batches[at]))) if progress else lambda at: None,
        )
        return np.concatenate(vectors)

    def _body(self, side: str, texts: Sequence[str]) -> dict[str, Any]:
        model = self._question_model if side == "query" else self.name
        if self._api == "tei":
            return {"inputs": texts, "normalize": True, "truncate": True}
        if self._api == "pinecone":
            declared = {} if self._dimensions is None else {"dimension": self._dimensions}
            parameters = {"input_type": side, "truncate": "END", **declared}
            return {"model": model, "inputs": [{"text": text} for text in texts], "parameters": parameters}
        declared = {} if self._dimensions is None else {"dimensions": self._dimensions}
        return {"model": model, "input": texts, "encoding_format": "base64", **declared}

    def _vectors(self, answer: Any, count: int) -> Matrix:
        """The vectors of one answer, cut and of unit length.  Raises InvalidAnswer, and anything for another JSON."""
        if self._api == "openai":
            answer = [row["embedding"] for row in rows_in_order(answer["data"], count)]
        elif self._api == "pinecone":
            answer = [row["values"] for row in answer["data"]]
        if len(answer) != count:
            raise InvalidAnswer(f"{count} vectors expected, {len(answer)} given")
        rows = [_numbers(row) for row in answer]
        if len({row.shape for row in rows}) > 1 or rows[0].ndim != 1:
            raise InvalidAnswer("its vectors have different lengths")
        vectors = np.stack(rows)[:, : self._width(len(rows[0]))]
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise InvalidAnswer("a vector is NaN, infinite or zero")
        return np.asarray(vectors / lengths, np.float32)

    def _width(self, answered: int) -> int:
        """The number of numbers that are kept.  Raises InvalidAnswer if there are too few, or others than before."""
        with self._lock:
            self._answered = self._answered or answered
        width = self._dimensions or self._answered
        if answered < width or (self._dimensions is None and answered > width):
            raise InvalidAnswer(f"{width} numbers expected, {answered} given")
        return width


def _numbers(row: Any) -> NDArray[np.float64]:
    """A vector as a list, or as little-endian float32 in base64."""
    if isinstance(row, str):
        return np.frombuffer(base64.b64decode(row, validate=True), "<f4").astype(np.float64)
    return np.array(row, np.float64)
