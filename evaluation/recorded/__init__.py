"""Recorded requests: fusing their lists again, as they were or under another configuration."""
