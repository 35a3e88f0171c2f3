"""Removes what deleted requests leave behind: answers in Redis, and the texts in write-ahead logs until these are rewritten."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import redis
from chorale_client.keys import result_key
from sqlalchemy import ColumnElement, Engine, select

from models.audit_tables import RequestRow
from models.batching import in_batches

REWRITE_LIMIT_S = 60.0
CHECKPOINT_LIMIT_S = 10.0
LOOK_EVERY_S = 0.1
AT_ONCE = 1_000


def ids_of(engine: Engine, which: ColumnElement[bool]) -> list[str]:
    """The ids of these requests in the trail."""
    with engine.connect() as connection:
        return list(connection.scalars(select(RequestRow.request_id).where(which).distinct()))


def forget(client: redis.Redis, request_ids: Iterable[str]) -> bool:
    """Delete the answers that Redis keeps for callers, and let it write its append-only file anew.

    The file has every deleted value until then.  Returns whether the file is new; true also where Redis keeps none.  Raises
    RedisError.
    """
    for some in in_batches(request_ids, AT_ONCE):
        client.delete(*map(result_key, some))
    if not _persistence(client)["aof_enabled"]:
        return True
    client.bgrewriteaof()
    give_up_s = time.monotonic() + REWRITE_LIMIT_S
    while time.monotonic() < give_up_s:
        state = _persistence(client)
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            return bool(state["aof_last_bgrewrite_status"] == "ok")
        time.sleep(LOOK_EVERY_S)
    return False


def _persistence(client: redis.Redis) -> dict[str, Any]:
    return client.info("persistence")


def checkpoint(engine: Engine) -> bool:
    """Empty the write-ahead log of a SQLite database; whether that succeeded.

    A process that reads for long prevents it.  PostgreSQL recycles its log by itself.
    """
    if engine.dialect.name != "sqlite":
        return True
    give_up_s = time.monotonic() + CHECKPOINT_LIMIT_S
    while True:
        with engine.connect() as connection:
            is_busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one()
        if not is_busy or time.monotonic() > give_up_s:
            return not is_busy
        time.sleep(LOOK_EVERY_S)
