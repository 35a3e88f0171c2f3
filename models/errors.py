"""What can go wrong inside the service.

* ServiceError
  x StageFailure          a stage could not do its work: carries the reason that goes on the wire
    + StoreUnavailable      unavailable
    + StoreTimeout          timeout
    + BadIndex              bad_index
    + Unauthorised          unauthorised
    + InvalidAnswer         invalid_answer
      . Declined              it would not answer this question
    + ModelMissing          model_missing
    + NotConfigured         not_configured
  x WrongDeclaration      a pipeline file or setting is wrong; the start stops
  x WrongHome             an installation's folder is of another version's format; the start stops
  x ManifestMismatch      a namespace was built in another way than it is asked for now
  x WriterBusy            another process is writing this namespace
  x PartlyWritten         some documents of a batch were not written; the others are
    + NotEverywhere         they are kept, and some store does not show them yet
  x SchemaTooNew          tables of the audit or of documents were made by a newer version (models.schema)
  x SchemaBusy            another process is changing the audit database's schema (audit.schema)

A stage failure of one branch is data, never an exception that leaves a task: it becomes an envelope.
"""

from __future__ import annotations

from collections.abc import Mapping

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


class Declined(InvalidAnswer):
    """The language model would not answer this question, by a filter or by its own word: it is well all the same."""


class ModelMissing(StageFailure):
    """The model is not there, or not loaded yet."""

    reason = Reason.MODEL_MISSING


class NotConfigured(StageFailure):
    """Declared, but without what it needs."""

    reason = Reason.NOT_CONFIGURED


class WrongDeclaration(ServiceError):
    """A setting or the pipeline file is wrong; the message says where and what the choices are."""


class WrongHome(ServiceError):
    """The installation's folder has a format that this program cannot use; the message says what to start or do."""


class ManifestMismatch(ServiceError):
    """A namespace was built in another way than it is asked for now; the message says what mends it."""


class WriterBusy(ServiceError):
    """Another process is writing this namespace; wait for it or stop it."""


class PartlyWritten(ServiceError):
    """Some documents of a batch were not written, each for its own reason; the others are, and can be seen.

    `failures` has the reason by document id: what may be handed in again.  `generation` is the new one.
    """

    def __init__(self, namespace: str, failures: Mapping[str, str], generation: int) -> None:
        named = "; ".join(f"{document_id}: {why}" for document_id, why in list(failures.items())[:3])
        more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
        super().__init__(f"{len(failures)} documents were not written to {namespace!r}: {named}{more}")
        self.failures = dict(failures)
        self.generation = generation


class NotEverywhere(PartlyWritten):
    """Documents that are kept in the table, and that not every store shows yet: `settle` and the next run write them
    again, and they need not be handed in."""
