"""A cross-encoder whose fault a test sets through Redis: slow, hung, raising, NaN.

A process that ran `PRELOAD` first obeys `FAULT`: `slow:0.1` seconds a pair, `hang:2` seconds a run, `raise`, `nan`.
"""

from __future__ import annotations

import os
import time
from typing import Any, cast

import numpy as np
import redis

from inference.reranking import onnx_reranker
from inference.reranking.onnx_reranker import OnnxReranker
from inference.reranking.pair_reranker import Logits

FAULT = "test:reranker"
PRELOAD = "from tests.support.models import reranker_faults; reranker_faults.install()\n"


def install() -> None:
    """Wraps the model that the reranker `onnx` of this process loads."""
    client = redis.Redis.from_url(os.environ["CHORALE_REDIS_URL"])
    load = OnnxReranker._load

    def loaded(self: OnnxReranker) -> Logits:
        run = load(self)

        def faulty(ids: Any, segments: Any, mask: Any) -> Any:
            told = cast("bytes | None", client.get(FAULT)) or b""
            fault, _, seconds = told.decode().partition(":")
            if fault == "slow":
                time.sleep(float(seconds) * len(ids))
            elif fault == "hang":
                time.sleep(float(seconds))
            elif fault == "raise":
                raise RuntimeError("the weights are on fire")
            logits = run(ids, segments, mask)
            return np.full_like(logits, np.nan) if fault == "nan" else logits

        return faulty

    onnx_reranker.OnnxReranker._load = loaded  # type: ignore[method-assign]
