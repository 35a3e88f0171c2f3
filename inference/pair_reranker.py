"""What all rerankers share: checks of the model, the choice of pairs that fit the time, batches, and the time limit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import isfinite
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.concurrency import JobThread, LazyValue
from inference.model_files import DEFAULT_TRUST, SAFETENSORS, ModelTrust, model_folder
from inference.onnx.word_pieces import batches_by_length, padded, plain_tokenizer, whole_characters
from inference.protocol import PairScores
from inference.sentence_model import SentenceModel, read_sentence_model
from inference.weight_files import fingerprint, refuse_pickles, weight_files
from models.errors import InvalidAnswer, ModelMissing, NotConfigured

Pair = tuple[str, str]
"""A question and a passage."""


class PairRow(NamedTuple):
    ids: list[int]
    """Token ids, with special tokens."""
    segments: list[int]
    """The tokenizer's token types: usually 0 for the question's pieces, 1 for the passage's."""


class PairPieces:
    """The tokenizer of a cross-encoder.  A pair longer than `max_pieces` is cut, the longer text first."""

    def __init__(self, model: SentenceModel, *, max_pieces: int | None = None) -> None:
        """Raises ModelMissing (no readable tokenizer.json), NotConfigured (`max_pieces` above the model's limit)."""
        self._tokenizer = plain_tokenizer(model)
        largest = model.positions or model.max_length
        if max_pieces is not None and max_pieces > largest:
            raise NotConfigured(
                f"max_pieces: {max_pieces}; the reranker in {model.folder} reads at most {largest} word pieces"
            )
        self.max_pieces = max_pieces or model.max_length
        """Word pieces of question and passage together, special tokens included."""
        self._tokenizer.enable_truncation(self.max_pieces, strategy="longest_first")

    def read(self, pairs: Sequence[Pair]) -> list[PairRow]:
        whole = [(whole_characters(question), whole_characters(passage)) for question, passage in pairs]
        encodings = [
            self._tokenizer.encode_batch_fast([pair])[0] for pair in whole
        ]  # one by one, as WordPieces does
        return [PairRow(encoding.ids, encoding.type_ids) for encoding in encodings]


HEADROOM = 0.8
"""The share of a budget that is planned for; the rest absorbs small slowdowns."""
WEIGHT = 0.3
"""The weight of the latest measurement; after seven, earlier ones count for a twelfth."""


class PairSpeed:
    """Seconds that a word piece takes: an exponentially weighted mean (EWMA) of the measured runs."""

    def __init__(self) -> None:
        self._piece_s: float | None = None

    def learn(self, length: int, pairs: int, took_s: float) -> None:
        """Record that a run of `pairs`, each of `length` word pieces with padding, took `took_s` seconds."""
        # A coarse clock may measure 0, and then every pair would seem to fit.
        measured_s = max(took_s, 1e-6) / (length * pairs)
        before_s = measured_s if self._piece_s is None else self._piece_s
        self._piece_s = before_s + WEIGHT * (measured_s - before_s)

    def expected_s(self, length: int) -> float:
        """Expected seconds for one pair; 0 before the first measurement."""
        return length * (self._piece_s or 0.0)

    def affordable(self, lengths: Sequence[int], limit_s: float) -> int:
        """How many pairs, counted from the first, are expected to end within the limit.

        At least one: otherwise a model that was slow once would never be measured again.
        """
        remaining_s = HEADROOM * limit_s
        for count, length in enumerate(lengths):
            remaining_s -= self.expected_s(length)
            if remaining_s < 0:
                return max(1, count)
        return len(lengths)


Ids = NDArray[np.int32]
"""Shape (batch, length), padded on the right."""
Logits = Callable[[Ids, Ids, Ids], NDArray[np.float32]]
"""Maps ids, segments and mask to one logit for each row, shape (batch,)."""

SHORT = 16
"""Word pieces of a short pair."""
WARM_RUNS = 3
"""Only the fastest of these runs counts: while workers start, some runs wait for a core."""


class PairReranker(ABC):
    """An `inference.protocol.Reranker`; reads nothing before `warm` or `fingerprint`; only `fetch` contacts the hub.

    `name` is a folder or a name on the hub; `max_pieces` limits question and passage together.  `device` None: the best
    one.  `precision` is `fp32` or `int8`, which a backend without it computes in fp32.  Loading raises NotConfigured if the model is no complete cross-encoder with one score for a pair, and
    ModelMissing for every other problem.
    """

    PRECISIONS: ClassVar[Sequence[str]] = ("fp32",)
    RUNS: ClassVar[Mapping[str, tuple[int, int]]] = {"cpu": (2_048, 16), "cuda": (32_768, 512)}
    """Maximum word pieces (with padding) and pairs of one run, by kind of device; a run is never interrupted."""

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        device: str | None = None,
        max_pieces: int | None = None,
        precision: str = "fp32",
        trust: ModelTrust = DEFAULT_TRUST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.threads = threads
        self.device = device
        self.precision = precision if precision in self.PRECISIONS else "fp32"
        self.trust = trust
        self.speed = PairSpeed()
        self._wanted_pieces = max_pieces
        self._clock = clock
        self._description = LazyValue(self._describe)
        self._fingerprint = LazyValue(self._compute_fingerprint)
        self._logits: Logits | None = None
        self._failure: ModelMissing | NotConfigured | None = None
        self._thread = JobThread("reranker")

    @property
    def fingerprint(self) -> str:
        with _loading(self.name):
            return self._fingerprint()

    @property
    def model(self) -> SentenceModel:
        return self._description()[0]

    @property
    def pieces(self) -> PairPieces:
        return self._description()[1]

    def weight_files(self) -> list[Path]:
        """The files that the logits are computed from."""
        if files := weight_files(self.model.folder):
            refuse_pickles(files, allowed=self.trust.pickled)
            return files
        raise ModelMissing(f"{self.model.folder} has no weights")

    def fetch(self) -> None:
        with _loading(self.name):
            try:
                _ = self.fingerprint
            except ModelMissing:
                model_folder(self.name, SAFETENSORS, self.trust)

    def warm(self) -> None:
        """Load the weights and measure their speed on this machine, once."""
        if self._logits is not None:
            return
        try:
            with _loading(self.name):
                self._thread.run(self._warm)
        except (ModelMissing, NotConfigured) as failure:
            self._failure = failure
            raise

    def most(self, limit_s: float) -> int:
        return max(1, int(limit_s / self.speed.expected_s(SHORT))) if self._logits else 1

    def score(self, pairs: Sequence[Pair], *, limit_s: float) -> PairScores:
        if self._logits is None:
            if isinstance(self._failure, NotConfigured):
                raise NotConfigured(self._failure.detail)
            why = f": {self._failure.detail}" if self._failure else ""
            raise ModelMissing(f"the reranker {self.name} is not loaded{why}")
        until = self._clock() + limit_s
        rows = self.pieces.read(pairs)
        chosen = self.speed.affordable([len(row.ids) for row in rows], until - self._clock())
        scores: list[float | None] = [None] * len(rows)
        remaining_s = until - self._clock()
        job = partial(self._run_until, until, remaining_s / 4, self._logits, rows[:chosen], scores)
        has_begun = self._thread.run(job, limit_s=remaining_s)
        # A copy, since a run that has not ended may still write to the list.
        logits = tuple(scores)
        if not all(logit is None or isfinite(logit) for logit in logits):
            raise InvalidAnswer(f"{self.name}: a score is not a number")
        return PairScores(logits, chosen, has_begun=has_begun)

    def _describe(self) -> tuple[SentenceModel, PairPieces]:
        model = read_sentence_model(model_folder(self.name, (), self.trust, is_local=True))
        check_classifier(model)
        return model, PairPieces(model, max_pieces=self._wanted_pieces)

    def _compute_fingerprint(self) -> str:
        length, precision = self.pieces.max_pieces, self.precision
        return fingerprint(self.model, self.weight_files(), max_length=length, precision=precision)

    def _warm(self) -> None:
        # Read the files again: they may have been repaired or replaced since the last attempt.
        self._description, self._fingerprint = LazyValue(self._describe), LazyValue(self._compute_fingerprint)
        self._fingerprint()
        logits = self._load()
        length = self.pieces.max_pieces
        most_pieces, most_pairs = self._run_limits
        rows = self.pieces.read([("warm", "warm " * length)]) * max(
            1, min(most_pieces // length, most_pairs) // 2
        )
        # The first run of a shape allocates memory and is slower.
        self._run(logits, rows)
        took_s = [self._run(logits, rows)[1] for _ in range(WARM_RUNS)]
        self.speed.learn(length, len(rows), min(took_s))
        self._logits = logits

    def _run_until(
        self, until: float, run_s: float, logits: Logits, rows: Sequence[PairRow], scores: list[float | None]
    ) -> None:
        """Score rows in order until the time is up, in runs that are expected to take at most `run_s`."""
        has_begun = False
        for batch in self._batches([len(row.ids) for row in rows], run_s):
            longest = len(rows[batch[0]].ids)
            # The first run always starts; otherwise the speed of a model that became slow would not be measured again.
            if has_begun and self._clock() + len(batch) * self.speed.expected_s(longest) > until:
                return
            has_begun = True
            for at, logit in zip(batch, self._measured(logits, [rows[at] for at in batch]), strict=True):
                scores[at] = float(logit)

    def _batches(self, lengths: Sequence[int], run_s: float) -> Iterator[list[int]]:
        """Positions in batches of similar length.  They stay near their order: if the time is up, the last ones are missing."""
        most_pieces, most_pairs = self._run_limits
        window = 2 * most_pairs
        for first in range(0, len(lengths), window):
            for batch in batches_by_length(lengths[first : first + window], max_tokens=most_pieces):
                expected_s = self.speed.expected_s(lengths[first + batch[0]])
                pairs = max(self.threads, min(most_pairs, int(run_s / expected_s)))
                for at in range(0, len(batch), pairs):
                    yield [first + place for place in batch[at : at + pairs]]

    def _measured(self, logits: Logits, rows: Sequence[PairRow]) -> NDArray[np.float32]:
        scores, took_s = self._run(logits, rows)
        self.speed.learn(max(len(row.ids) for row in rows), len(rows), took_s)
        return scores

    def _run(self, logits: Logits, rows: Sequence[PairRow]) -> tuple[NDArray[np.float32], float]:
        """The scores, and the seconds that they took."""
        begun_s = self._clock()
        ids, mask = padded([row.ids for row in rows], padding_id=self.model.padding_id)
        segments, _ = padded([row.segments for row in rows])
        scores = logits(ids, segments, mask)
        if scores.shape != (len(rows),):
            raise InvalidAnswer(f"{self.name}: {len(rows)} scores expected, shape {scores.shape} given")
        return scores, self._clock() - begun_s

    @property
    def _run_limits(self) -> tuple[int, int]:
        """Maximum word pieces and pairs of one run."""
        return self.RUNS.get((self.device or "cpu").split(":")[0], self.RUNS["cpu"])

    @abstractmethod
    def _load(self) -> Logits:
        """Raises NotConfigured; any other exception becomes ModelMissing."""


@contextmanager
def _loading(name: str) -> Iterator[None]:
    try:
        yield
    except (ModelMissing, NotConfigured):
        raise
    # Files, devices and libraries raise any exception.  The worker must survive it: only reranking is lost.
    except Exception as error:
        raise ModelMissing(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def check_classifier(model: SentenceModel) -> None:
    """Raise NotConfigured if the model does not give a pair one score; an embedder does not."""
    architecture = next(iter(model.config.get("architectures") or ()), "of no named architecture")
    if not architecture.endswith("ForSequenceClassification"):
        raise NotConfigured(
            f"{model.folder} is {architecture}, not a reranker: the architecture of a cross-encoder ends with "
            "ForSequenceClassification"
        )
    # transformers assumes two labels where the file does not say.
    labels = len(model.config.get("id2label") or ()) or int(model.config.get("num_labels") or 2)
    if labels != 1:
        raise NotConfigured(f"{model.folder} gives a pair {labels} scores; a reranker gives one")
    if model.other_modules:
        raise NotConfigured(
            f"{model.folder} has the modules {', '.join(model.other_modules)}, which are not supported"
        )
