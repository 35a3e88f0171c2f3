"""Weaviate's `rankedFusion`: sum of weight / (60 + rank from 0); `alpha` is the weight of the vectors, 1 - alpha that of BM25."""

from fusion.methods import rrf
from fusion.preset import preset

METHOD = preset("weaviate-ranked", rrf.METHOD, k=59)
