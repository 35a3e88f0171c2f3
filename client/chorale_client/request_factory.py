"""A request from keyword arguments, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pydantic import ValidationError

from chorale_client.errors import InvalidRequest
from chorale_client.request import Question, Request
from chorale_client.request_json import request_json
from chorale_client.request_options import RequestOptions
from chorale_client.tracing import current_traceparent

Questions = str | Question | Mapping[str, Any] | Sequence[str | Question | Mapping[str, Any]]


def make_request(questions: Questions, **options: Unpack[RequestOptions]) -> Request:
    """A checked request from one question or several; an option that is None has its default.  Raises InvalidRequest, which
    names the field."""
    several = questions if isinstance(questions, Sequence) and not isinstance(questions, str) else [questions]
    try:
        options.setdefault("traceparent", current_traceparent())
        given = {name: value for name, value in options.items() if value is not None}
        request = Request.model_validate({"questions": several, **given})
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    request_json(request)
    return request
