"""A reranker behind HTTP: the protocol of TEI, or that of Cohere and Jina, which vLLM and Infinity speak too."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from math import isfinite, log
from pathlib import Path
from typing import Any

from inference.concurrency import LazyValue
from inference.endpoints.json_endpoint import JsonEndpoint, Key, rows_in_order
from inference.onnx.word_pieces import cut_to, estimated_pieces, whole_characters
from inference.pair_reranker import Pair
from inference.protocol import PairScores
from models.batching import in_batches
from models.errors import (
    InvalidAnswer,
    ModelMissing,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    Unauthorised,
    WrongDeclaration,
)

BATCHES = {"tei": 32, "cohere": 100, "jina": 100}
"""Passages of one request, by protocol: TEI refuses more than 32 by default, and Cohere bills a request of
up to 100 as one."""
PARALLEL = 16
MAX_ANSWER_BYTES = 8_000_000
"""Some endpoints repeat the passages in their answer."""
LEAST_PROBABILITY = 1e-6
ROUNDING = 1e-5
"""How far a server's arithmetic puts a probability outside 0 to 1."""
RELATED_OR_NOT = (
    "what is the capital of France?",
    ("Paris is the capital of France.", "The pump is oiled in spring."),
)
MOST_PAIRS = 10_000
CHECK_S = 10.0
"""The time limit of `warm`."""


class EndpointReranker:
    """An `inference.protocol.Reranker`.  Thread-safe; reads and sends nothing before `warm` or `score`.

    `url` is the endpoint without `/rerank`, `name` its model.  The passages of a question are sent `batch` at a time, all of
    them at once.  `max_pieces` limits question and passage together, by estimate; None: the endpoint cuts.  After a call that was too late, fewer pairs are sent; after calls that end early, more again.

    Cohere's and Jina's protocols promise probabilities, and some servers return logits.  A score outside 0 to 1 shows a server of
    logits: from then on all its scores are.  `warm` asks for a pair without relation, whose logit is below 0.

    Errors quote neither texts nor the key.
    """

    def __init__(
        self,
        name: str,
        *,
        url: str,
        api: str = "tei",
        api_key: Key = None,
        batch: int | None = None,
        max_pieces: int | None = None,
        ca_file: str | Path | None = None,
        add_tokens: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        """`add_tokens` is called with the tokens that the endpoint reports as used, if it reports any.

        Raises WrongDeclaration for an unknown `api`.
        """
        if api not in BATCHES:
            raise WrongDeclaration(f"unknown api {api!r}; there are: {', '.join(BATCHES)}")
        self.name = name
        self._api = api
        self._batch = batch or BATCHES[api]
        self._max_pieces = max_pieces
        self._most = MOST_PAIRS
        self._is_warm = False
        self._gives_logits = api == "tei"
        self._endpoint = LazyValue(
            lambda: JsonEndpoint(
                url=url,
                path="rerank",
                model=name,
                answer="list of scores",
                api_key=api_key,
                max_bytes=MAX_ANSWER_BYTES,
                ca_file=ca_file,
                add_tokens=add_tokens,
            )
        )

    @property
    def fingerprint(self) -> str:
        """Hash of protocol and model; the endpoint may have another model of that name."""
        return hashlib.sha256(json.dumps([self._api, self.name]).encode()).hexdigest()[:32]

    def most(self, limit_s: float) -> int:
        """The number of pairs that ended in time, whatever the limit."""
        return self._most

    def score(self, pairs: Sequence[Pair], *, limit_s: float) -> PairScores:
        """Raises StageFailure if a request fails for another reason than the time."""
        chosen, begun_s = min(len(pairs), self._most), time.monotonic()
        places: dict[str, list[int]] = {}
        for at, (question, _) in enumerate(pairs[:chosen]):
            places.setdefault(question, []).append(at)
        batches = [
            batch for same_question in places.values() for batch in in_batches(same_question, self._batch)
        ]
        answers = self._endpoint().each(
            [self._body(pairs[batch[0]][0], [pairs[at][1] for at in batch]) for batch in batches],
            lambda at, answer: self._scores(answer, len(batches[at])),
            timeout_s=limit_s,
            parallel=PARALLEL,
        )
        scores: dict[int, float] = {}
        is_late = False
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, StoreTimeout):
                is_late = True
            elif isinstance(answer, StageFailure):
                raise answer
            else:
                scores |= zip(batch, answer, strict=True)
        if is_late:
            self._most = max(1, chosen // 2)
        elif 2 * chosen > self._most and time.monotonic() - begun_s < limit_s / 2:
            self._most = min(2 * chosen, MOST_PAIRS)
        logits = dict(zip(scores, self._logits([*scores.values()]), strict=True))
        return PairScores(tuple(map(logits.get, range(len(pairs)))), chosen)

    def fetch(self) -> None:
        """Does nothing: there are no files."""

    def warm(self) -> None:
        """Score two pairs, once.  Raises ModelMissing if the endpoint is away, NotConfigured if it refuses."""
        if self._is_warm:
            return
        try:
            body = self._body(*RELATED_OR_NOT)
            [scores] = self._endpoint().all(
                [body], lambda _, answer: self._scores(answer, 2), timeout_s=CHECK_S, parallel=1
            )
            self._logits(scores)
        except (NotConfigured, Unauthorised) as refused:
            raise NotConfigured(refused.detail) from refused
        except StageFailure as failure:
            raise ModelMissing(failure.detail) from failure
        self._is_warm = True

    def _body(self, question: str, passages: Sequence[str]) -> dict[str, Any]:
        query, texts = whole_characters(question), [whole_characters(passage) for passage in passages]
        if self._max_pieces is not None:
            query = cut_to(self._max_pieces // 2, query)
            remaining_pieces = self._max_pieces - estimated_pieces(query)
            texts = [cut_to(remaining_pieces, text) for text in texts]
        # Some endpoints refuse an empty text.
        query, texts = query or " ", [text or " " for text in texts]
        if self._api == "tei":
            return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}
        # Cohere returns no documents; Jina does unless `return_documents` is false.
        return {
            "model": self.name,
            "query": query,
            "documents": texts,
            "top_n": len(texts),
            **({"return_documents": False} if self._api == "jina" else {}),
        }

    def _scores(self, answer: Any, count: int) -> list[float]:
        """The scores in the order of the passages.  Raises InvalidAnswer, and anything for another JSON."""
        is_tei = self._api == "tei"
        rows = rows_in_order(answer if is_tei else answer["results"], count)
        scores = [float(row["score" if is_tei else "relevance_score"]) for row in rows]
        if not all(map(isfinite, scores)):
            raise InvalidAnswer("a score is not a number")
        return scores

    def _logits(self, scores: Sequence[float]) -> Sequence[float]:
        """The logits of all scores of a call."""
        if any(not -ROUNDING <= score <= 1 + ROUNDING for score in scores):
            self._gives_logits = True
        return scores if self._gives_logits else [_logit(score) for score in scores]


def _logit(probability: float) -> float:
    """The logit whose sigmoid is this probability; it is finite for 0 and 1."""
    inside = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return log(inside / (1 - inside))
