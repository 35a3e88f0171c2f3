"""A declared JSON search endpoint (`models.declarations.sources`) as a read-only source.  Knows no particular product."""
