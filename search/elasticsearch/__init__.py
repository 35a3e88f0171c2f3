"""The Elasticsearch store (servers 8 and 9): an index for each namespace, behind an alias.

Each namespace has an index of its own since BM25's word statistics are an index's: in a shared one, what one
namespace holds would change the order of another's hits, and how often a word occurs there would show.  A shard
costs memory and cluster state, so a cluster takes 1,000 of them a node (`cluster.max_shards_per_node`): up to some
500 namespaces a node with one replica each.  Needs no scripts and no plugin.  Knows no settings and no other stage.
"""
