"""The options with which ONNX Runtime runs our models."""

from __future__ import annotations

import onnxruntime

PROVIDERS = ["CPUExecutionProvider"]


def session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads make a single model faster (2.8 instead of 4.3 ms a question), but three models on two cores slower
    # (45 instead of 16 ms), at twice the processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
