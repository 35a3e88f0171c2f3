"""Neural models: embedders, hypothesis generators, rerankers.

Models are loaded after a worker has started, never at import.  The callers pass in names, limits and texts; this folder
knows no store, no settings and no Celery.
"""

import os

# ONNX Runtime reads this when it is imported.  Without it, it sends telemetry and writes a file to the temporary folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
