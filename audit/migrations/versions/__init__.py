"""One file a revision, never changed once released; the newest is `audit.schema.HEAD`."""
