"""Keeps documents right if messages are done in another order than they were handed in: the last one stands.

Workers overtake each other, a message that failed for now goes to the end of its queue, and a killed worker's message
comes back after a minute.  A command that writes itself is later than all waiting messages.

Document ids are kept only if they were written while an older message was not done: usually none, otherwise some 160
bytes a document, for thirty days at most.  If two workers have the same message, the second one leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chorale_client.index_tickets import NOT_DONE_FOR_S
from chorale_client.keys import INDEXED, NOT_DONE, WRITTEN
from pydantic_core import from_json
from redis import Redis

from ledger import ledger_scripts
from models.batching import in_batches

IDS_A_TRIP = 1_000
TOLD_FOR_S = 3_600
"""How long the outcome of a message can be read."""


class DoneByAnother(Exception):
    """Another worker has done the same message; later writes are no longer kept for it."""


class WriteOrder:
    """The order of one message: its stamp (`chorale_client.index_tickets`), and its ticket if Redis notes it as not done.

    Used while the namespace is held.  Methods raise RedisError.
    """

    def __init__(self, client: Redis, namespace: str, handed_in: int, *, ticket: str | None = None) -> None:
        self._client = client
        self._keys = (NOT_DONE + namespace, WRITTEN + namespace)
        self._handed_in, self._ticket = handed_in, ticket

    def is_done(self) -> bool:
        """Whether another worker has done the message; False if that is not known, as after Redis was emptied.

        Outcomes are kept for an hour.  An older message counts as done if its note is gone.
        """
        if self._ticket is None:
            return False
        with self._client.pipeline(transaction=False) as trip:
            trip.zscore(self._keys[0], self._ticket)
            trip.get(INDEXED + self._ticket)
            trip.time()
            not_done, told, (now_s, _) = trip.execute()
        if told is not None:
            # The stamp is compared too: a program without our client may use an id again.
            return bool(from_json(told).get("handed_in") == self._handed_in)
        # A message that was given up lost its note too, but it is older than NOT_DONE_FOR_S.
        return not_done is None and TOLD_FOR_S < now_s - self._handed_in / 1_000_000 < NOT_DONE_FOR_S

    def overtaken(self, document_ids: Sequence[str]) -> set[str]:
        """The ids that a later message has written or deleted.  Raises DoneByAnother."""
        if self.is_done():
            raise DoneByAnother
        with self._client.pipeline(transaction=False) as trip:
            for document_id in document_ids:
                trip.zscore(self._keys[1], document_id)
            found = trip.execute()
        return {
            name
            for name, stamp in zip(document_ids, found, strict=True)
            if stamp is not None and stamp > self._handed_in
        }

    def keep(self, document_ids: Iterable[str]) -> None:
        """Note that this message has written or deleted these ids."""
        scripts = ledger_scripts(self._client)
        given_up = self._handed_in - NOT_DONE_FOR_S * 1_000_000
        for part in in_batches(document_ids, IDS_A_TRIP):
            args = [self._handed_in, given_up, NOT_DONE_FOR_S, *part]
            if not scripts.run("keep_written", self._keys, args):
                # No older message waits, and every new one is later.
                return
