"""What one installation decides: settings, the pipeline declaration, logging, the Celery application.

Knows `models` and `chorale_client`; must not know how a store searches, a model embeds or a method fuses.
"""
