"""ONNX graphs of BERT models, built from the weights of a model folder, and the sessions that run them."""
