"""A declared JSON search endpoint (`models.http_endpoint`) as a read-only source.  Knows no particular product."""
