"""The processes that this machine runs for `chorale up`: supervisor, children, its own Redis server."""
