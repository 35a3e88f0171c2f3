"""One file a revision, never changed once released; the newest is that of `search.several_stores.database.SCHEMA`."""
