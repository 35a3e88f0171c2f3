"""The vectors of a namespace in segments: files that every process of the machine maps, so that memory holds them once.

Beside its vectors a segment has them as codes, integers of 8 bits.  Products of codes take a quarter of the time, and their error has a
bound: |qx - q'x'| <= |q| |x - x'| + |q - q'| |x'| for a question q, a vector x and what their codes stand for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from models.documents import Matrix, Vector
from models.onnx_messages import INT8, INT32, UINT8, model, node, port
from search.documents.lookups import STORED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

VECTORS = "vectors"
"""The folder inside of a namespace's index in which the segments are; it is deleted with the index."""
SIZE = 8_256
"""The number of vectors in a segment; with fewer vectors one product of floats is as fast.  It is no power of 2, since
the codes of a vector would share lines of the processor's cache, and products for several questions would take a seventh longer."""
_WAIT_S = 0.2
"""A search waits this long for another process that writes a segment, which takes a tenth of a second; then it loads the vectors itself."""
_INEXACT = 1e-5
"""This is more than any error of a product's score, which depends on the number of questions beside it: BLAS sums in another order
for another shape."""
_GATHER_BELOW = 0.125
"""Copying a smaller share of the vectors is faster than multiplying all of them."""
_LEVELS, _QUESTION_LEVELS = 127, 63
"""Codes of passages are from -127 to 127, those of questions from -63 to 63: x86 processors without VNNI add two products in 16 bits,
and two of 8-bit codes would not fit."""
_SHIFT = _QUESTION_LEVELS + 1
"""The sum with this number makes a question's codes unsigned, as the fast kernels want them."""


@dataclass(frozen=True, slots=True)
class Segment:
    rids: NDArray[np.int64]
    """Shape (n,), ascending."""
    vectors: Matrix
    """Shape (n, d)."""
    codes: Codes | None = None

    def products(self, questions: Questions, places: NDArray[np.intp]) -> tuple[Matrix, NDArray[np.float64]]:
        """Scores of the vectors at `places`, shape (q, p), and the largest possible error of each question's scores, shape (q,)."""
        errors = np.full(len(questions.vectors), _INEXACT)
        if len(places) < _GATHER_BELOW * len(self.rids):
            return questions.vectors @ self.vectors[places].T, errors
        if self.codes is None:
            scores = questions.vectors @ self.vectors.T
        else:
            scores = self.codes.products(questions)
            errors += questions.lengths * self.codes.error + questions.errors * self.codes.length
        return scores if len(places) == len(self.rids) else scores[:, places], errors


class Questions:
    """Some questions, shape (q, d), and their codes."""

    def __init__(self, vectors: Matrix) -> None:
        self.vectors = vectors
        codes, self.steps = _coded(vectors, _QUESTION_LEVELS)
        self.codes = (codes + _SHIFT).astype(np.uint8)
        self.lengths = _lengths(vectors)
        self.errors = _lengths(vectors - codes * self.steps)


@dataclass(frozen=True, slots=True)
class Codes:
    """A vector's codes times its step are nearly the vector."""

    matrix: NDArray[np.int8]
    """Shape (d, n)."""
    sums: NDArray[np.int32]
    """Shape (n,): the sum of each vector's codes."""
    steps: Vector
    """Shape (n,)."""
    error: float
    """The length of the largest difference between a vector and what its codes stand for."""
    length: float
    """The length of the longest of what the codes stand for."""

    def products(self, questions: Questions) -> Matrix:
        """Scores, shape (q, n)."""
        (sums,) = _multiplier().run(None, {"questions": questions.codes, "codes": self.matrix})
        sums -= _SHIFT * self.sums
        scores: Matrix = sums.astype(np.float32)
        scores *= self.steps
        scores *= questions.steps
        return scores


def _coded(vectors: Matrix, levels: int) -> tuple[Matrix, Matrix]:
    """The codes of each vector, as floats, and its step, shape (n, 1)."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    steps = np.where(largest > 0, largest / levels, 1).astype(np.float32)
    # The division of a tiny number may round up to one level more.
    return np.rint(vectors / steps).clip(-levels, levels), steps


def _lengths(vectors: Matrix) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
    return lengths


@cache
def _multiplier() -> InferenceSession:
    """Multiplies integers; numpy has no fast product of them."""
    from onnxruntime import InferenceSession, SessionOptions

    product = node("MatMulInteger", ["questions", "codes"], ["sums"])
    ports = [port("questions", UINT8, ["q", "d"]), port("codes", INT8, ["d", "n"])]
    written = model([product], [], ports, port("sums", INT32, ["q", "n"]), {"": 13})
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    return InferenceSession(written, options, providers=["CPUExecutionProvider"])


class SegmentFiles:
    """The segments of one index; each begins after the last vector of the one before."""

    def __init__(self, folder: Path, dimension: int) -> None:
        self.folder, self.dimension, self.size = folder, dimension, SIZE
        self._layout = np.dtype(
            [
                ("rids", "<i8", (SIZE,)),
                ("vectors", STORED, (SIZE, dimension)),
                ("codes", "i1", (dimension, SIZE)),
                ("sums", "<i4", (SIZE,)),
                ("steps", "<f4", (SIZE,)),
                ("error", "<f8"),
                ("length", "<f8"),
                ("after", "<i8"),
            ]
        )

    def open(self, number: int, after: int) -> Segment | None:
        """The segment, if its file is there, whole, and continues after the rid `after`."""
        # A file that is cut, or of another version or dimension, is as good as none.
        with suppress(OSError, ValueError):
            record: Any = np.lib.format.open_memmap(self._path(number), mode="r")
            if record.dtype == self._layout and record["after"] == after:
                parts = {name: np.asarray(record[name]) for name in self._layout.names or ()}
                codes = Codes(
                    parts["codes"],
                    parts["sums"],
                    parts["steps"],
                    float(parts["error"]),
                    float(parts["length"]),
                )
                return Segment(parts["rids"], parts["vectors"], codes)
        return None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder against other processes; raises OSError.  The kernel releases it when its holder dies."""
        from filelock import FileLock  # its import takes 27 ms

        self.folder.mkdir(exist_ok=True)
        with FileLock(self.folder / "lock", timeout=_WAIT_S):
            yield

    def write(self, number: int, after: int, rids: NDArray[np.int64], vectors: Matrix) -> None:
        """Raises OSError.  A process that is killed meanwhile, or a power cut, leaves no file of that name."""
        record = np.zeros((), self._layout)
        codes, steps = _coded(vectors, _LEVELS)
        record["after"], record["rids"], record["vectors"] = after, rids, vectors
        record["codes"], record["sums"], record["steps"] = codes.T, codes.sum(axis=1), steps[:, 0]
        record["error"] = _lengths(vectors - codes * steps).max()
        record["length"] = _lengths(codes * steps).max()
        draft = self._path(number).with_suffix(".draft")
        try:
            with draft.open("wb") as file:
                np.save(file, record)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path(number))
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        # The later segments followed an older one of this number.
        for later in self.folder.glob("*.npy"):
            if int(later.stem) > number:
                later.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.npy"
