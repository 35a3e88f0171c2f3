"""Reciprocal rank fusion as published (Cormack, Clarke and Büttcher, SIGIR 2009): sum of 1 / (60 + rank), without weights."""

from fusion.methods import rrf
from fusion.preset import preset

METHOD = preset("paper", rrf.METHOD, k=60, is_weighted=False)
