"""The rules of namespaces: kept in SQL with every change, copied to Redis, and matched with questions by whoever plans."""
