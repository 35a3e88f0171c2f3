"""A process that embeds long texts keeps the memory that it had."""

from __future__ import annotations

import pytest

from tests.support.new_process import printed

EMBED = """
import random, psutil
from inference.backends import load_embedder

words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 12))) for _ in range(5_000)]
embedder = load_embedder("sentence-transformers/all-MiniLM-L6-v2", backend="onnx", threads=1)
embedder.warm()
before = psutil.Process().memory_info().rss
for _ in range(12):
    texts = [" ".join(random.choices(words, k=1_200))[:8_192] for _ in range(16)]
    embedder.pieces.read(texts)
embedder.embed_passages(texts[:8])
print((psutil.Process().memory_info().rss - before) // 1_000_000)
"""


@pytest.mark.slow
def test_a_worker_on_many_cores_does_not_grow_with_the_long_texts_that_it_has_embedded() -> None:
    (grown_mb,) = printed(EMBED, RAYON_NUM_THREADS="32", OMP_NUM_THREADS="1")
    assert int(grown_mb) < 40
