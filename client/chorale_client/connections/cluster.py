"""The errors of a Redis Cluster.  It is not supported, because the scripts of requests name keys of several slots."""

from __future__ import annotations

from redis.exceptions import AskError, ClusterCrossSlotError, ClusterDownError, MasterDownError

NO_CLUSTER = "Redis Cluster is not supported"


def is_of_cluster(error: Exception) -> bool:
    """Whether only a Redis Cluster gives this error."""
    if isinstance(error, ClusterDownError):
        return not isinstance(error, MasterDownError)
    return isinstance(error, AskError | ClusterCrossSlotError) or "hash to the same slot" in str(error)
