"""Weaviate: passages in one collection, a tenant for each namespace, a second collection for what namespaces are."""
