"""A cross-encoder whose fault a test sets through Redis: slow, hung, raising, NaN.

Within `faulty_rerankers` it obeys `FAULT`: `slow:0.1` seconds a pair, `hang` until the test sets another, `raise`, `nan`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest
import redis

from inference.pair_reranker import Logits
from inference.rerankers import OnnxReranker
from tests.support.waiting import until

FAULT = "test:reranker"


@contextmanager
def faulty_rerankers(client: redis.Redis) -> Iterator[None]:
    """Wraps the model that a reranker `onnx` of this process loads."""
    load = OnnxReranker._load

    def loaded(self: OnnxReranker) -> Logits:
        run = load(self)

        def faulty(ids: Any, segments: Any, mask: Any) -> Any:
            value = cast("bytes | None", client.get(FAULT)) or b""
            fault, _, seconds = value.decode().partition(":")
            if fault == "slow":
                time.sleep(float(seconds) * len(ids))
            elif fault == "hang":
                until(lambda: client.get(FAULT) != value, 60)
            elif fault == "raise":
                raise RuntimeError("the weights are on fire")
            logits = run(ids, segments, mask)
            return np.full_like(logits, np.nan) if fault == "nan" else logits

        return faulty

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxReranker, "_load", loaded)
        yield
