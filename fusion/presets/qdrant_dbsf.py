"""Qdrant's `dbsf`: sum of (score - mean + 3 sigma) / 6 sigma, sigma with n - 1, without weights; equal scores are worth .5."""

from fusion.methods import dbsf
from fusion.preset import preset

METHOD = preset("qdrant-dbsf", dbsf.METHOD, is_weighted=False)
