"""Contiguous arrays that grow at their end, with amortised copying."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Growing:
    """A view taken before an `append` stays unchanged, so readers need no lock."""

    def __init__(self, dtype: DTypeLike, *, width: int | None = None) -> None:
        self._array: NDArray[Any] = np.empty((0,) if width is None else (0, width), dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> NDArray[Any]:
        return self._array[: self._size]

    def reserve(self, size: int) -> None:
        if size > len(self._array):
            larger = np.empty((size, *self._array.shape[1:]), dtype=self._array.dtype)
            larger[: self._size] = self.view
            self._array = larger

    def append(self, values: NDArray[Any]) -> None:
        size = self._size + len(values)
        if size > len(self._array):
            # Growing by an eighth copies each row about nine times in all and wastes at most 12 % of the memory.
            self.reserve(max(size, len(self._array) + len(self._array) // 8, 64))
        self._array[self._size : size] = values
        self._size = size
