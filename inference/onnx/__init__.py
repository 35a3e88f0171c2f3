"""Encoders and rerankers run by onnxruntime from the weights of a sentence-transformers folder."""
