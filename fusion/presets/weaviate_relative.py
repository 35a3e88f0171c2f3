"""Weaviate's `relativeScoreFusion`: sum of weight x (score - lowest) / (highest - lowest); equal scores are worth 1.

`alpha` is the weight of the vectors, 1 - alpha that of BM25; its default is .75.
"""

from fusion.methods import comb_sum
from fusion.preset import preset

METHOD = preset("weaviate-relative", comb_sum.METHOD)
