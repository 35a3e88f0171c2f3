"""The processes: how worker and sweeper start, warm up, give signs of life and stop.

Knows no step of a request.
"""
