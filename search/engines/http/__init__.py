"""A declared JSON search endpoint (`models.source_endpoints`) as a read-only source.  Knows no particular product."""
