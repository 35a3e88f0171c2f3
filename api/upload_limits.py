"""What the uploads of jobs and of the console may cost: places for each key, and a lowest rate."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from anyio import fail_after
from starlette.requests import ClientDisconnect

from api.problems import Problem
from api.services import UPLOADS, UPLOADS_OF_A_KEY, Services
from records.keys.grant import Grant

log = logging.getLogger(__name__)

SILENT_S = 30.0
"""Seconds without a byte after which an upload is given up."""
LONGEST_S = 3_600.0
"""Seconds in which the whole body must arrive.  The time that the service takes to read it does not count."""
LEAST_BYTES_A_SECOND = 1_000
"""On average, as soon as the service has waited longer than `SILENT_S`."""


async def paced(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks of a body.  Raises Problem if it is cut off, or comes too slowly."""
    read, waited_s = 0, 0.0
    while True:
        begun_s = time.monotonic()
        try:
            with fail_after(SILENT_S):
                chunk = await anext(body, None)
        except TimeoutError:
            raise Problem("malformed", f"nothing of the body arrived for {SILENT_S:.0f} s") from None
        except ClientDisconnect:
            log.warning("an upload was cut off after %d bytes", read)
            raise Problem("malformed", "the upload was cut off") from None
        waited_s += time.monotonic() - begun_s
        if chunk is None:
            return
        read += len(chunk)
        if waited_s > LONGEST_S:
            raise Problem("malformed", f"the body took longer than {LONGEST_S:.0f} s")
        if waited_s > SILENT_S and read < LEAST_BYTES_A_SECOND * waited_s:
            raise Problem("malformed", f"the body came with less than {LEAST_BYTES_A_SECOND} bytes a second")
        yield chunk


@contextmanager
def upload_place(services: Services, grant: Grant) -> Iterator[None]:
    """A place among the uploads.  Raises Problem if all are taken, or all that one key may have."""
    if services.uploads_of[grant.key_id] >= UPLOADS_OF_A_KEY:
        raise Problem("refused", f"{UPLOADS_OF_A_KEY} uploads of this key are being read; upload again later")
    if services.uploads_of.total() >= UPLOADS:
        raise Problem("refused", f"{UPLOADS} uploads are being read; upload again later")
    services.uploads_of[grant.key_id] += 1
    try:
        yield
    finally:
        services.uploads_of[grant.key_id] -= 1
        if not services.uploads_of[grant.key_id]:
            del services.uploads_of[grant.key_id]
