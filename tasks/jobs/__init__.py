"""Bulk jobs at work: the feeder sends segments, and bulk workers answer them."""
