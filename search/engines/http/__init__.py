"""A declared JSON search endpoint (`models.endpoints`) as a read-only source.  Knows no particular product."""
