"""Connections to Redis: their addresses and time limits, failover, and idle connections that were dropped."""
