"""From settings to what the tasks of one process work with: stores, models, language models, ledger, caches.

The only folder that joins settings to the folders that are given values."""
