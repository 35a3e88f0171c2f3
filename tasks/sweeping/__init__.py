"""What happens to a request when nobody acts: messages are sent again, late requests are ended, queues are watched.

Needs no model.
"""
