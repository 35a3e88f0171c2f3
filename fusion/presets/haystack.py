"""Haystack's `DocumentJoiner` with `reciprocal_rank_fusion`: sum of weight / (61 + rank from 0)."""

from fusion.methods import rrf
from fusion.preset import preset

METHOD = preset("haystack", rrf.METHOD, k=60)
