"""The pipeline as Celery tasks: one folder for each part of their life.  Only this folder, config,
monitoring and the client know Celery; nothing below imports tasks."""
