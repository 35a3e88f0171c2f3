"""The service's own vocabulary, frozen and pure: hits, rankings, envelopes, plans, errors; and the SQL rows.

Knows `chorale_client` (the words on the wire) and nothing else of the product.
"""
