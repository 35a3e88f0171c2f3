"""Any JSON search endpoint as a source: declared (`models.http_endpoint`), never written for."""
