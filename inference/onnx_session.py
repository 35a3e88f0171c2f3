"""How ONNX Runtime runs our models."""

from __future__ import annotations

import onnxruntime

PROVIDERS = ["CPUExecutionProvider"]


def session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin for their next operator save a lone model 1.5 ms a question (2.8, not 4.3); where
    # three models share two cores they cost 30 (45, not 16) and twice the processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
