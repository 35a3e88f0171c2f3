"""The Elasticsearch store (servers 8 and 9), of which OpenSearch is another dialect (`dialect`): one index for each build of a namespace.

Each namespace has its own index because BM25's word statistics belong to an index.  In a shared index, one
namespace's documents would change the order of another's hits and reveal how often a word occurs.  A shard costs
memory and cluster state, and a cluster takes 1,000 shards a node (`cluster.max_shards_per_node`): about 500
namespaces a node with one replica each.  Needs no scripts and no plugin.  Must not know settings or other stages.
"""
