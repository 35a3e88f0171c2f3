"""Fusion methods that rank as other systems do, at their default settings: each file declares its `METHOD`.

Their `k` is fixed, scores are never completed, and weights stay as declared in any language.
"""
