"""Models behind an address: one mechanism of calls, and the encoder, reranker and language model that use it."""
