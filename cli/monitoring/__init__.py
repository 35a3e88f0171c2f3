"""Who is alive and what waits, read from Redis; the probes of containers and autoscalers."""
