"""Documents on their way into a namespace: the tasks, the order of messages, one run, its batches, its report.

Knows nothing of requests.
"""
