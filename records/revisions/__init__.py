"""One file a revision, never changed once released; the newest is that of `records.database.SCHEMA`."""
