"""One worker process: its start, its heartbeat, its report about itself."""
