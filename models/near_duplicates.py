"""Groups of near-duplicates, as the stores keep them and `ingest.near_duplicates` forms them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Signature = NDArray[np.uint32]
"""A MinHash signature, shape (PERMUTATIONS,) of `ingest.minhash`."""


@dataclass(slots=True)
class Group:
    """Documents that are near-duplicates of one text, the first of the group."""

    group_id: int
    name: str
    """The id of the document that began the group, with `~2`, `~3`, … where an earlier group still has that name."""
    signature: Signature
    """Signature of the first text."""
    bands: Sequence[int]
    """Hashes of the parts of the signature; near-duplicates have at least one in common."""
    members: int
