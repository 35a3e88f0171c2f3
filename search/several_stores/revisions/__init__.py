"""One file for each revision, never changed once released.  `search.several_stores.database.SCHEMA` names the newest."""
