"""Requests in flight: who is expected, who has answered, when to join, when to end, and the terminal write.

Knows Redis and the words on the wire; no Celery and no settings.
"""
