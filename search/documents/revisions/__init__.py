"""One file for each revision, never changed once released.  `search.documents.database.SCHEMA` names the newest."""
