"""Messages about one document that are done in another order than they were handed in: what came last stands.

Two workers overtake each other, what failed for now goes to the end of its queue, and what a killed worker had in hand
comes again after a minute.
"""

from __future__ import annotations

from collections.abc import Sequence

from chorale_client.keys import WRITTEN
from redis import Redis

KEPT_S = 86_400
"""Beyond that an older message is not known to be one: it is given up before."""


class WriteOrder:
    """Of one message, by its stamp (`chorale_client.handed_in`).

    To be asked and told by who holds the namespace; raises RedisError.
    """

    def __init__(self, client: Redis, namespace: str, handed_in: int) -> None:
        self._client = client
        self._key = WRITTEN + namespace
        self._handed_in = handed_in

    def overtaken(self, document_ids: Sequence[str]) -> set[str]:
        """Those that a later message has written, or deleted."""
        with self._client.pipeline(transaction=False) as trip:
            for document_id in document_ids:
                trip.zscore(self._key, document_id)
            found = trip.execute()
        return {
            name
            for name, stamp in zip(document_ids, found, strict=True)
            if stamp is not None and stamp > self._handed_in
        }

    def keep(self, document_ids: Sequence[str]) -> None:
        """This message has written, or deleted, these."""
        if not document_ids:
            return
        with self._client.pipeline() as trip:
            trip.zadd(self._key, dict.fromkeys(document_ids, self._handed_in))
            trip.zrangebyscore(self._key, 0, self._handed_in - KEPT_S * 1_000_000, 0, 1_000)
            trip.expire(self._key, KEPT_S)
            _, old, _ = trip.execute()
        if old:
            self._client.zrem(self._key, *old)
