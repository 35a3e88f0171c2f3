"""Importing this module does once what each worker and sweeper does first, so that the forks of this process need not do it."""

from __future__ import annotations

from functools import cache

from celery.utils import imports

import tests.support.models.shared_model  # noqa: F401  # forks have the model
from config.settings import Settings
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tasks.worker import heartbeat

# What installed packages say of themselves: their metadata take a tenth of a second to read.
for _module, _name in ((imports, "entry_points"), (heartbeat, "version")):
    vars(_module)[_name] = cache(vars(_module)[_name])
heartbeat.versions()
Resources(Settings(), load_pipeline(), "redis://127.0.0.1").encoder.embedder.warm()
