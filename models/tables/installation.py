"""The SQL rows of bulk jobs, API keys, logins of the console, rules of namespaces, changes and feedback, in the database of the audit trail.

A job is one row with its counts.  Its lines are in segments, each with its questions and its results as one value, so
that a line has exactly one result however often its segment is answered.  Rules have one row for each change.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, Table, Text

installation_metadata = MetaData()

job_table = Table(
    "chorale_job",
    installation_metadata,
    Column("job_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("reason", Text, nullable=False),
    Column("on_end", JSON),  # {"task", "queue"} or {"url"}; records/jobs/job.py
    Column("callback_sent", Integer, nullable=False),  # 1: the message of `on_end` was sent, or there is none
    # Milliseconds since 1970, by the Redis server's clock.
    Column("created_at_ms", BigInteger, nullable=False),
    Column("touched_at_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("deadline_at_ms", BigInteger),
    Column("segments", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    # With `pending`, which is the rest, these sum to `total`.
    Column("running", Integer, nullable=False),
    Column("complete", Integer, nullable=False),
    Column("degraded", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("refused", Integer, nullable=False),
    Column("expired", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    Column("deduplicated", Integer, nullable=False),
    Column("rate_1m", Double),  # lines a second during the last minute
    Index("ix_chorale_job_state", "state"),
)

segment_table = Table(
    "chorale_job_segment",
    installation_metadata,
    Column("job_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 0, in input order
    Column("state", Text, nullable=False),  # waiting, sent, done
    Column(
        "attempt", Integer, nullable=False
    ),  # how often it was sent; a message of an earlier attempt counts no more
    Column("tries", Integer, nullable=False),  # how often a worker has begun it
    Column("again", Integer, nullable=False),  # how often lines were answered again after a temporary failure
    Column("due_at_ms", BigInteger, nullable=False),  # sent: end of the lease; waiting: not before
    Column("open", Integer, nullable=False),  # how many lines have no final result
    Column("left", JSON),  # their places in `lines`; NULL: all lines that are not refused
    Column(
        "suspect", Integer
    ),  # the line that a worker answers alone, since the segment's worker died before
    Column("degraded", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("lines", LargeBinary, nullable=False),  # zlib of JSON: [[number, id, fields, error]]
    Column("results", LargeBinary),  # zlib of JSON: [result or null]
    Index("ix_chorale_job_segment_state", "job_id", "state", "number"),
)


key_table = Table(
    "chorale_key",
    installation_metadata,
    Column("key_id", Text, primary_key=True),
    Column("hashed", Text, nullable=False),  # SHA-256 of the secret, which is nowhere stored
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("namespaces", JSON(none_as_null=True)),  # NULL: every namespace
    Column("scopes", JSON, nullable=False),
    Column("filters", JSON, nullable=False),
    Column("max_top_k", Integer),
    Column("max_depth", Integer),
    Column("max_questions", Integer),
    Column("max_timeout_s", Double),
    Column("requests_per_minute", Integer),
    Column("weight", Double, nullable=False),
    # Milliseconds since 1970.
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
    Column("used_at_ms", BigInteger),  # to the minute
    Index("ix_chorale_key_tenant", "tenant"),
)


session_table = Table(
    "chorale_session",  # logins of the console
    installation_metadata,
    Column("hashed", Text, primary_key=True),  # SHA-256 of the id in the cookie, which is nowhere stored
    Column("key_id", Text, nullable=False),
    Column("token", Text, nullable=False),  # every form has to send it
    Column("ends_at_ms", BigInteger, nullable=False),  # since 1970
)


rule_table = Table(
    "chorale_rules",
    installation_metadata,
    Column("namespace", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),  # the highest one holds
    Column("changed_at_ms", BigInteger, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("rules", JSON, nullable=False),
)


change_table = Table(
    "chorale_change",  # what somebody changed in the installation through the console
    installation_metadata,
    Column("change_id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),  # since 1970
    Column("key_id", Text, nullable=False),
    Column("key_name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),  # the id of what was changed
    Index("ix_chorale_change_at_ms", "at_ms"),
)

feedback_table = Table(
    "chorale_feedback",  # what users and judges say of hits; the names of the last three are those of UBI events
    installation_metadata,
    Column("feedback_id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),  # since 1970
    Column("key_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("request_id", Text, nullable=False),  # UBI's query_id
    Column("question", Integer, nullable=False),  # its position in the request
    Column("text", Text),  # NULL if texts are not kept
    Column("text_hash", Text, nullable=False),  # as in chorale_question
    Column("configuration", Text),
    Column("source", Text, nullable=False),  # user, judge, llm
    Column("grade", Integer),  # 0 to 3
    Column("action_name", Text, nullable=False),
    Column("object_id", Text),  # the document; NULL: no document fits
    Column("ordinal", Integer),  # the rank that the hit had, from 1
    Index("ix_chorale_feedback_text_hash", "namespace", "text_hash"),
    Index("ix_chorale_feedback_request_id", "request_id"),
)
