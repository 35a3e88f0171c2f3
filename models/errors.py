"""What can go wrong inside the service.

* ServiceError
  x StageFailure          a stage could not do its work: carries the reason that goes on the wire
    + StoreUnavailable      unavailable
    + StoreTimeout          timeout
    + BadIndex              bad_index
    + Unauthorised          unauthorised
    + InvalidAnswer         invalid_answer
    + ModelMissing          model_missing
    + NotConfigured         not_configured
  x WrongDeclaration      a pipeline file or setting is wrong; the start stops
  x ManifestMismatch      a namespace was built in another way than it is asked for now
  x WriterBusy            another process is writing this namespace
  x SchemaTooNew          the audit database was written by a newer version (audit.schema)
  x SchemaBusy            another process is changing the audit database's schema (audit.schema)

A stage failure of one branch is data, never an exception that leaves a task: it becomes an envelope.
"""

from __future__ import annotations

from chorale_client.words import Reason


class ServiceError(Exception):
    """The base of everything that the service raises."""


class StageFailure(ServiceError):
    """A stage could not do its work; `reason` and `detail` go into the envelope."""

    reason: Reason = Reason.ERROR

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class StoreUnavailable(StageFailure):
    """The store or server did not answer."""

    reason = Reason.UNAVAILABLE


class StoreTimeout(StageFailure):
    """The store did not answer within the time it was given."""

    reason = Reason.TIMEOUT


class BadIndex(StageFailure):
    """Missing or damaged index, wrong mapping, unknown namespace."""

    reason = Reason.BAD_INDEX


class Unauthorised(StageFailure):
    """The store refused our credentials."""

    reason = Reason.UNAUTHORISED


class InvalidAnswer(StageFailure):
    """The store or model answered nonsense: NaN, a wrong length, not JSON."""

    reason = Reason.INVALID_ANSWER


class ModelMissing(StageFailure):
    """The model is not there, or not loaded yet."""

    reason = Reason.MODEL_MISSING


class NotConfigured(StageFailure):
    """Declared, but without what it needs."""

    reason = Reason.NOT_CONFIGURED


class WrongDeclaration(ServiceError):
    """A setting or the pipeline file is wrong; the message says where and what the choices are."""


class ManifestMismatch(ServiceError):
    """A namespace was built in another way than it is asked for now; the message says what mends it."""


class WriterBusy(ServiceError):
    """Another process is writing this namespace; wait for it or stop it."""
