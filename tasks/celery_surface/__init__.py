"""Everything that touches a private name of Celery or kombu."""
