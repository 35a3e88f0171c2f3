"""What the tasks of one process work with, made from settings: stores, models, language models, ledger, caches.

Only this folder reads settings for the folders below it, which are given values."""
