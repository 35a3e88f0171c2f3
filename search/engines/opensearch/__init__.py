"""The OpenSearch store (servers 2.19 and 3): the indexes, searches and writing of `search.engines.elasticsearch` through
OpenSearch's own client.

Vectors need the k-NN plugin, which every complete distribution has; its engine `lucene` applies filters inside the graph.
"""
