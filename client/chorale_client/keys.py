"""Every Redis key of the product, its type and its meaning.  Lua scripts get the names from here too.

| key                          | type       | meaning                                                        |
|------------------------------|------------|----------------------------------------------------------------|
| chorale:request:<id>         | hash       | a request in flight (fields below); deleted by its end         |
| chorale:moments              | sorted set | for each request in flight the next moment to act on it (ms)   |
| celery-task-meta-<id>        | string     | the answer, as Celery's result; published on the same channel; |
|                              |            | while the request runs, the state STARTED                      |
| celery-task-meta-<id>:<branch> | string     | the state of a part, as Celery's result; its end is published  |
|                              |            | on the same channel                                            |
| celery-taskset-meta-<id>     | string     | the parts of a request, as Celery's GroupResult; expires       |
| chorale:outbox               | stream     | ended requests on their way to the audit tables                |
| chorale:outbox:unreadable    | stream     | ended requests that the audit could not read; capped           |
| chorale:outbox:callbacks     | stream     | ended requests with callbacks (`on_end`,                       |
|                              |            | `link`, `chain`); capped                                       |
| chorale:outbox:callback_lease | string     | which sweeper process sends the callbacks; expires             |
| chorale:outbox:limit         | string     | how many entries may wait in the outbox, as workers published  |
| chorale:outbox:refused       | string     | how many requests were refused because the outbox was full     |
| chorale:coalescing:<fingerprint> | string     | the request that leads a question in flight; expires with it   |
| chorale:followers:<id>       | hash       | the requests that wait for this leader's answer, each with its |
|                              |            | coalescing key; expires                                        |
| chorale:signing              | string     | the key of the workers' signatures (32 random bytes), unless   |
|                              |            | `CHORALE_SIGNING_KEY` is set                                   |
| chorale:ready                | list       | a token for each chord whose parts wait; it wakes one worker   |
|                              |            | that serves every branch, which then takes all parts           |
| chorale:quarantine           | hash       | malformed entries that the sweeper has deleted: why, by id;    |
|                              |            | expires                                                        |
| chorale:generation:<ns>      | string     | the corpus generation (SQL is the truth)                       |
| chorale:rules                | hash       | the rules of each namespace (JSON; SQL is the truth)           |
| chorale:adapted              | hash       | by configuration and namespace, the last check of its grades   |
|                              |            | (JSON, `records/rules/adaptation_checks.py`)                   |
| chorale:adapter              | string     | which sweeper process adapts weights; expires                  |
| chorale:indexed:<task id>    | string     | the outcome of handed-in documents (JSON); expires             |
| chorale:indexed:<task id>:waiting | string     | why documents that were put back are not indexed yet (JSON);   |
|                              |            | expires                                                        |
| chorale:sent:<ns>:<source>   | set        | messages of a source whose outcome `chorale index` has not     |
|                              |            | read; expires                                                  |
| chorale:handed_in            | string     | when documents were last handed in (µs by the server's clock)  |
| chorale:not_done:<ns>        | sorted set | messages with documents that are not done, by when they were   |
|                              |            | handed in (µs); expires                                        |
| chorale:written:<ns>         | sorted set | documents that were written or deleted while an older message  |
|                              |            | was not done, by when they were handed in (µs); expires        |
| chorale:cache:<key>          | string     | answers of single questions, and hypotheses                    |
| chorale:heartbeat:<worker>   | string     | a worker's sign of life (JSON); expires                        |
| chorale:served:<queue>       | string     | some worker answers bulk jobs and costly requests              |
|                              |            | (`chorale.bulk`), or fuses (`chorale.fusion`); expires         |
| chorale:sweeper              | string     | which sweeper acts at present; expires (`sweeper_lease_ms`)    |
| chorale:feeder               | string     | which feeder sends the segments of bulk jobs; expires          |
| chorale:job:commands         | list       | what callers ask of bulk jobs, until a sweeper process does it |
|                              |            | (JSON, docs/reference/wire.md); expires                        |
| chorale:job:reply:<caller>   | list       | the replies to one caller (JSON); expires                      |
| chorale:revoked              | set        | revoked task ids that are no requests; bulk jobs among them    |
|                              |            | are cancelled; expires                                         |
| chorale:overload             | hash       | the load of each queue, the bound that it exceeds, and         |
|                              |            | `retry_after_ms` while new requests are refused; expires       |
| chorale:breaker:<branch>     | hash       | failures in a row; since and until when open; probe; expires   |
| chorale:breaker:store:<name> | hash       | the same for a store                                           |
| chorale:breaker:generator:<branch> | hash       | the same for a branch's language model                         |
| chorale:breaker:encoder:<name> | hash       | the same for an encoder behind an address                      |
| chorale:durations:<branch>   | list       | milliseconds of its last answers, for hedges; expires          |
| chorale:metrics              | hash       | how many requests ended how, and how fast, and the tokens of   |
|                              |            | endpoints (monitoring/); no TTL                                |
| chorale:timeouts             | hash       | seconds by configuration, where one declares its own time;     |
|                              |            | the empty name is the default configuration's                  |
| chorale:rate:<key>           | string     | calls of an API key in the minute that began with the first of |
|                              |            | them; expires                                                  |
| chorale:unacked              | hash       | the broker's messages that index and bulk workers have taken   |
|                              |            | and not acknowledged, by delivery tag (kombu writes them)      |
| chorale:unacked_index        | sorted set | the last renewal of each (s)                                   |

Celery and kombu own, beside the queues' lists: `_kombu.*`, `celery-task-meta-*` of tasks whose results somebody asked
for, and the channels `celeryev*` and `*.pidbox`.  `unacked*` is that of other applications.

Fields of a request's hash; times are milliseconds by the Redis server's clock:

| field                | meaning                                                                        |
|----------------------|--------------------------------------------------------------------------------|
| state                | accepted, planned, following, fusing                                           |
| request, fingerprint | the request (JSON); its hash, which detects another request with the same id   |
| head                 | the answer's first fields, as JSON text                                        |
| accepted_at, deadline, answer_ttl | when it came, when it ends, how long the answer is kept (ms)                   |
| retrieve_sent, fuse_sent | how often `chorale.retrieve` and `chorale.fuse` were sent                      |
| plan, left           | the plan (JSON); how many branches have not reported                           |
| mac                  | the planner's signature of request, coalescing key and plan                    |
| join_at, finish_reserve, fusion_reserve, fusing_until | the moments of ledger and sweeper                                              |
| coalescing_key, leader | equal questions in flight                                                      |
| followed, leader_late | how often it followed another request; how often its leader was late           |
| decided              | the branch whose failure ended the wait (`on_missing: fail`)                   |
| limit:, resend:, resent:, started:, status:, result: | + branch: one part each                                                        |
| mac:                 | + branch: the signature of its result                                          |
| decisive:            | + branch, 1: its failure ends the wait                                         |
| lease:               | + branch: how long after its start a part without an answer is sent again (ms) |
| hedge:, hedged:      | + branch: when attempt 2 is due, when it was sent                              |
| failed:              | + branch: the attempt that failed while the other is out                       |
| again:               | + branch: when a message for it was first sent again                           |
"""

from __future__ import annotations

PREFIX = "chorale:"
ENTRY = "chorale:request:"
WAKEUPS = "chorale:moments"
OUTBOX = "chorale:outbox"
OUTBOX_LIMIT = "chorale:outbox:limit"
OUTBOX_REFUSED = "chorale:outbox:refused"
CALLBACKS = "chorale:outbox:callbacks"
CALLBACK_LEASE = "chorale:outbox:callback_lease"
COALESCING = "chorale:coalescing:"
FOLLOWERS = "chorale:followers:"
SIGNING = "chorale:signing"
READY = "chorale:ready"
QUARANTINE = "chorale:quarantine"
GENERATION = "chorale:generation:"
RULES = "chorale:rules"
ADAPTED = "chorale:adapted"
ADAPTER = "chorale:adapter"
INDEXED = "chorale:indexed:"
SENT = "chorale:sent:"
HANDED_IN = "chorale:handed_in"
NOT_DONE = "chorale:not_done:"
WRITTEN = "chorale:written:"
CACHE = "chorale:cache:"
HEARTBEAT = "chorale:heartbeat:"
SERVED = "chorale:served:"
SWEEPER = "chorale:sweeper"
FEEDER = "chorale:feeder"
REVOKED = "chorale:revoked"
JOB_COMMANDS = "chorale:job:commands"
JOB_REPLY = "chorale:job:reply:"
OVERLOAD = "chorale:overload"
BREAKER = "chorale:breaker:"
DURATIONS = "chorale:durations:"
TIMEOUTS = "chorale:timeouts"
RATE = "chorale:rate:"
METRICS = "chorale:metrics"
UNACKED = "chorale:unacked"
RESULT = "celery-task-meta-"
GROUP_RESULT = "celery-taskset-meta-"


def entry_key(request_id: str) -> str:
    return ENTRY + request_id


def waiting_key(ticket: str) -> str:
    """A key of its own: the outcome's key ends the wait of `wait_visible`."""
    return f"{INDEXED}{ticket}:waiting"


def result_key(request_id: str) -> str:
    """Key of the answer, and channel that announces it."""
    return RESULT + request_id
