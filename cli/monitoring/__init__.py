"""Heartbeats and queues as Redis has them; the health checks of containers and the figures for autoscalers."""
