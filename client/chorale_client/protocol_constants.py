"""The numbers of the ledger's protocol.  Python reads them here; every Lua script has them as local variables.

docs/reference/ledger.md explains the moments.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProtocolConstants:
    """A field `fuses` is the variable `FUSES` of the scripts."""

    sweeper_lease_ms: int = 120
    """How long a sweeper that died keeps the others waiting, and how long it keeps the requests that it has to end.

    For a limit of .16 s or more, this time less the finish reserve is below the 90 ms that callers wait beyond the deadline.  A
    sweeper sleeps for less than this time, so that it keeps its lease."""
    retrieves: int = 2
    """How often the sweeper sends `chorale.retrieve` for a request that nobody plans."""
    plans: int = 2
    """How often the sweeper then plans the request itself; the second time is for a sweeper that died meanwhile."""
    plan_every_ms: int = 100
    """The pause before each of these attempts, times the number of the attempt."""
    resends: int = 2
    """How often the sweeper sends a part again that nobody started."""
    resend_every_ms: int = 500
    fuses: int = 3
    """How often `chorale.fuse` is published in all."""
    fuse_every_ms: int = 250
    follower_every_ms: int = 50
    """How long after its leader's deadline a follower is looked at, and how often from then on."""
    replan_share: float = 0.5
    """A follower with less than this share of its time left takes an incomplete answer instead of a new plan."""
    shortest_fusion_ms: int = 20
    """Time that even a late fusion has before the sweeper ends the request."""
    longest_fusion_lease_ms: int = 500
    """How long a fusion worker may keep the requests that it has joined: half of the time that is left, at most this, and
    at least the fusion reserve.  After that another worker fuses them.  For a costly request there is no such limit."""
    longest_finish_reserve_ms: int = 60
    finish_reserve_percent: int = 20
    """Share of `timeout_s` that is kept for the terminal write; at most `longest_finish_reserve_ms`."""
    default_outbox_limit: int = 10_000
    """Maximum ended requests that wait for the audit tables, unless the workers published another limit."""
    brief_from_share: float = 0.5
    """When this share of the limit is reached, new entries of the outbox leave out the candidates of the branches."""


PROTOCOL = ProtocolConstants()
