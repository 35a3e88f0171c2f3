"""Elasticsearch's `linear` retriever with the normalizer `minmax`: sum of weight x (score - lowest) / (highest - lowest).

Equal scores are worth 1.  Its `rank_window_size` is an option of the configuration.
"""

from fusion.methods import comb_sum
from fusion.preset import preset

METHOD = preset("elastic-linear", comb_sum.METHOD)
