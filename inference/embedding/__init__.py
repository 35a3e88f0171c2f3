"""Embedders: texts become vectors, by ONNX Runtime or by sentence-transformers."""
