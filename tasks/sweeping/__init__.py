"""The sweeper, which ends requests that nobody else ended, and the queues that it watches."""
