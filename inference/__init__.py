"""Neural models: embedders, hypothesis generators, rerankers; loaded after a worker started, never at import.

Is given names, limits and texts; knows no store, no settings and no Celery.
"""

import os

# ONNX Runtime reports to its maker and leaves a file in the temporary folder unless this stands before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
