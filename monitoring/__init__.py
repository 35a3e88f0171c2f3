"""What one sees of a running installation: heartbeats, queues, and the health checks of containers."""
