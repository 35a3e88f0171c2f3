"""The configuration of one installation: settings, the pipeline file, logging, Celery's settings.

Knows `models` and `chorale_client`; must not know how a store searches, a model embeds or a method fuses.
"""
