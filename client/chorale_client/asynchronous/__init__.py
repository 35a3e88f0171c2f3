"""The client for programs with an event loop: `AsyncChorale`, its two connections and its handles."""
