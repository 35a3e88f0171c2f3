"""Elasticsearch's `rrf` retriever: sum of weight / (rank_constant + rank), rank from 1, rank_constant 60.

Its `rank_window_size` is an option of the configuration.
"""

from fusion.methods import rrf
from fusion.preset import preset

METHOD = preset("elastic", rrf.METHOD, k=60)
