"""A file of questions, asked once so that Compare has what each branch reports.  The bulk workers answer, behind other requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from chorale_client.errors import InvalidRequest, safe_repr
from chorale_client.jobs.job_line import METADATA
from chorale_client.jobs.lines import form_of, read_lines
from chorale_client.request_factory import make_request

from api.limits import count_cost
from console.pages import Visit
from models.batching import in_batches
from models.plan import ordinary_calls

MOST_BYTES = 4_000_000
MOST_QUESTIONS = 500
"""As many as Compare compares."""
QUESTIONS_A_REQUEST = 50
"""Questions; a request of so many is costly, and goes to the bulk workers."""
TIMEOUT_S = 60.0


async def ask_file(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, OutOfScope, InvalidRequest, Problem for too many calls, ChoraleError."""
    grant, services = visit.session.grant, visit.services
    grant.require("search:run")
    if len(visit.files) != 1:
        raise InvalidRequest("file: choose one")
    ((name, content),) = visit.files
    questions = list(questions_in(name, content))
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise InvalidRequest(f"file: 1 to {MOST_QUESTIONS} questions, not {len(questions):,}")
    namespace = form.get("namespace", "").strip() or "default"
    sides = {name: form[name] for name in ("a", "b") if form.get(name)}
    correlation_id = f"file-{grant.new_id()[-12:]}"
    requests = [
        grant.applied(
            make_request(
                some,
                request_id=grant.new_id(),
                correlation_id=correlation_id,
                namespace=namespace,
                configuration=sides.get("a"),
                cache="bypass",
                include=("ids",),
                timeout_s=TIMEOUT_S,
            )
        )
        for some in in_batches(questions, QUESTIONS_A_REQUEST)
    ]
    calls = sum(ordinary_calls(request.questions) for request in requests)
    await count_cost(visit.request, grant, services.redis, calls)
    for request in requests:
        await services.client.submit_request(request)
    about = {"namespace": namespace, "correlation_id": correlation_id, "awaited": len(requests)}
    return f"/compare?{urlencode({**sides, **about})}"


def questions_in(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    """The questions of a text file, one on each line, or of the input of a job.  Raises InvalidRequest, which names the line."""
    if name.lower().endswith(".txt"):
        try:
            lines = content.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"file: not UTF-8: {error.reason}") from None
        yield from ({"text": line.strip()} for line in lines if line.strip())
        return
    for line in read_lines(BytesIO(content), form=form_of(name)):
        if line.fields is None:
            raise InvalidRequest(f"file: line {line.number}: {line.error}")
        if others := sorted(line.fields.keys() - {"questions", METADATA}):
            raise InvalidRequest(
                f"file: line {line.number}: {safe_repr(others[0])}: a line has a question alone, since all are asked alike"
            )
        yield from line.fields["questions"]
