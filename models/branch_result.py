"""The result that a branch task leaves in the ledger, and the notes that stages leave in the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chorale_client.wire_names import WIRE_VERSION, BranchStatus, Reason, StageStatus
from pydantic_core import from_json, to_json

from models.hits import Ranking


@dataclass(frozen=True, slots=True)
class Degradation:
    """A missing part of the answer and the reason; `where` is a stage, or `search.<branch>`."""

    where: str
    reason: str
    detail: str = ""

    def to_wire(self) -> dict[str, str]:
        return {"where": self.where, "reason": self.reason, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class StageNote:
    """One line of the waterfall."""

    stage: str
    status: str = StageStatus.OK
    ms: float = 0.0
    n_in: int | None = None
    n_out: int | None = None
    start_ms: float | None = None
    """Start, counted from the acceptance of the request, by the Redis server's clock."""
    detail: str | None = None
    first_start_ms: float | None = None
    """When a worker first began a branch that was sent again, or that had not answered when the waiting ended."""
    sent_again_ms: float | None = None
    """When a second message for a branch was sent."""

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"stage": self.stage, "status": str(self.status), "ms": round(self.ms, 3)}
        for name in ("n_in", "n_out", "start_ms", "detail", "first_start_ms", "sent_again_ms"):
            if (value := getattr(self, name)) is not None:
                wire[name] = round(value, 3) if isinstance(value, float) else value
        return wire

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> StageNote:
        return cls(**{name: value for name, value in wire.items() if name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class BranchResult:
    """A branch's answer to all questions of a request that the cache did not answer."""

    branch: str
    status: str
    """A `BranchStatus`; read as an open string."""
    reason: str | None = None
    """A `Reason`, if the status is `failed`."""
    detail: str = ""
    rankings: tuple[Ranking, ...] = ()
    """One for each question asked, in order."""
    ms: float = 0.0
    stages: tuple[StageNote, ...] = ()
    generation: int | None = None
    """The corpus generation that was searched."""
    attempt: int = 1
    degraded: tuple[Degradation, ...] = ()
    """Parts that were missing although the branch answered, such as a language model with a fallback."""
    worker: str | None = None
    """The Celery worker that made it, for Flower; None without task events."""
    embedder: str | None = None
    """The fingerprint of the namespace's encoder; None for the default one, which the plan has."""

    @property
    def answered(self) -> bool:
        return self.status in (BranchStatus.OK, BranchStatus.EMPTY)

    @classmethod
    def failed(cls, branch: str, reason: str, detail: str = "", **rest: Any) -> BranchResult:
        # An error may quote a lone surrogate, which JSON cannot hold.
        detail = detail[:500].encode(errors="backslashreplace").decode()
        return cls(branch, BranchStatus.FAILED, str(reason), detail, **rest)

    def to_wire(self) -> bytes:
        optional = {name: value for name in _OPTIONAL if (value := getattr(self, name))}
        if self.degraded:
            optional["degraded"] = [degradation.to_wire() for degradation in self.degraded]
        return to_json(
            {
                "v": WIRE_VERSION,
                "branch": self.branch,
                "ms": round(self.ms, 3),
                "rankings": [ranking.to_wire() for ranking in self.rankings],
                "stages": [note.to_wire() for note in self.stages],
                **{name: getattr(self, name) for name in _PLAIN},
                **optional,
            }
        )

    @classmethod
    def from_wire(cls, branch: str, raw: bytes | str) -> BranchResult:
        """Never raises: an unreadable branch result is a failed branch."""
        try:
            # Without a cache of strings, which nearly all differ, reading takes half the time.
            wire = from_json(raw, cache_strings="none")
            return cls(
                branch=branch,
                rankings=tuple(Ranking.from_wire(ranking) for ranking in wire.get("rankings", ())),
                stages=tuple(StageNote.from_wire(note) for note in wire.get("stages", ())),
                degraded=tuple(
                    Degradation(degradation["where"], degradation["reason"], degradation.get("detail", ""))
                    for degradation in wire.get("degraded", ())
                ),
                **{name: wire[name] for name in ("ms", *_PLAIN, *_OPTIONAL) if wire.get(name) is not None},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return cls.failed(branch, Reason.INVALID_ANSWER, f"unreadable result: {error}")


_PLAIN = ("status", "reason", "detail", "generation", "attempt")
_OPTIONAL = ("worker", "embedder")


def sent(branch_result: BranchResult) -> tuple[BranchResult, bytes]:
    """The branch result with its JSON; a failure in its place if a kind of branch of a package found what JSON cannot hold."""
    try:
        return branch_result, branch_result.to_wire()
    except ValueError as error:
        why = f"not JSON: {error}"
        failure = BranchResult.failed(
            branch_result.branch, Reason.INVALID_ANSWER, why, attempt=branch_result.attempt
        )
        return failure, failure.to_wire()
