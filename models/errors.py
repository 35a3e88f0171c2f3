"""What can go wrong inside the service.

A StageFailure of a branch never leaves its task as an exception: it becomes a branch result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chorale_client.errors import safe_repr
from chorale_client.wire_names import NO_NAMESPACE, THERE_ARE, Reason


class ServiceError(Exception):
    """The base of everything that the service raises."""


def cause(error: Exception) -> str:
    """The kind and the first line of an error.  Of a database's error, later lines contain the statement and its values."""
    original = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {str(original).partition(chr(10))[0]}"[:500]


class UnsupportedRedis(ServiceError):
    """The Redis is of a kind that the service cannot work with.  A process that ends by it should not be started again.

    `what` is wrong, and `mend` is what to do about it.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what}: {mend}")
        self.what, self.mend = what, mend


class StageFailure(ServiceError):
    """A stage failed; `reason` and `detail` go into the branch result."""

    reason: Reason = Reason.ERROR

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class StoreUnavailable(StageFailure):
    """The store or server did not answer."""

    reason = Reason.UNAVAILABLE


class StoreTimeout(StageFailure):
    """The store did not answer in time."""

    reason = Reason.TIMEOUT


class OutOfTime(StageFailure):
    """The request had no time left for it."""

    reason = Reason.BUDGET


class BadIndex(StageFailure):
    """Missing or damaged index, wrong mapping."""

    reason = Reason.BAD_INDEX


class OtherEncoder(BadIndex):
    """A namespace has the vectors of another model than the question."""


class UnknownNamespace(BadIndex):
    """`detail`, which callers read, says which namespaces are there, as far as that is known; the HTTP API shows a key its own
    (`records.keys.redaction`).  The text of the exception, which logs and commands show to operators, also says where it was
    searched."""

    def __init__(self, namespace: str, place: str, there: Iterable[str] | None = None) -> None:
        wrong = f"{NO_NAMESPACE}{safe_repr(namespace)}"
        known = "" if there is None else f"{THERE_ARE}{', '.join(there) or 'none yet'}"
        super().__init__(wrong + known)
        self._text = f"{wrong} in {place}{known or '; `chorale namespaces list` shows the existing ones'}"

    def __str__(self) -> str:
        return self._text


class Unauthorised(StageFailure):
    """The store refused our credentials."""

    reason = Reason.UNAUTHORISED


class InvalidAnswer(StageFailure):
    """The store or model answered nonsense: NaN, a wrong length, not JSON."""

    reason = Reason.INVALID_ANSWER


class Declined(InvalidAnswer):
    """The language model, or its filter, refused this question; the model itself works."""


class ModelMissing(StageFailure):
    """The model was not found, or is not loaded yet."""

    reason = Reason.MODEL_MISSING


class NotConfigured(StageFailure):
    """Something that the declaration needs is missing or not supported."""

    reason = Reason.NOT_CONFIGURED


class WrongDeclaration(ServiceError):
    """A setting or the pipeline file is wrong; the message says where and what the choices are."""


class WrongHome(ServiceError):
    """The installation's folder has a format that this program cannot use; the message says what to start or do."""


class ManifestMismatch(ServiceError):
    """A namespace was built with other settings than the current ones; the message says what to do."""


class WriterBusy(ServiceError):
    """Another process is writing this namespace; wait for it or stop it."""


class PartlyWritten(ServiceError):
    """Some documents of a batch were not written; the others were, and are visible.

    `failures`: reason by document id; these may be handed in again.  `generation`: the new generation, of a store that has one.
    """

    def __init__(self, namespace: str, failures: Mapping[str, str], generation: int = 0) -> None:
        named = "; ".join(f"{document_id}: {why}" for document_id, why in list(failures.items())[:3])
        more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
        super().__init__(f"{len(failures)} documents were not written to {namespace!r}: {named}{more}")
        self.failures = dict(failures)
        self.generation = generation


class NotEverywhere(PartlyWritten):
    """The documents are in the documents' database, but some store does not show them yet.  `settle` or the next run
    writes them; they need not be handed in again."""


class NotOffered(ValueError):
    """The request asks for something that this pipeline does not have; the message says what it has."""
