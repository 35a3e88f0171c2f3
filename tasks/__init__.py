"""The pipeline on Celery: the chord, its parts, the fusion, the sweeper.  The only folder that knows Celery's tasks."""
