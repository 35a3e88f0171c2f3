"""Whether rendered messages are still Celery's own: where they differ, the process publishes plain chords."""

from __future__ import annotations

import json
from base64 import b64decode

from celery import Celery
from chorale_client.message_template import Template, rendered_by_celery


def check(app: Celery, task: str, queue: str) -> str | None:
    """How a rendered message differs from Celery's own for the same task; None if it does not."""
    kwargs = {"request_id": "probe", "branch": "probe"}
    ids = {"root_id": "root", "parent_id": "parent", "group_id": "group"}
    try:
        rendered = Template(app, task, queue).render(
            "probe:probe", kwargs, root_id="root", parent_id="parent", group_id="group"
        )
        ours = json.loads(rendered)
        theirs = rendered_by_celery(app, task, queue, task_id="probe:probe", kwargs=kwargs, **ids)
        for message in (ours, theirs):
            message["properties"].pop("delivery_tag", None)
            message["body"] = json.loads(b64decode(message["body"]))
    except Exception as error:  # whatever a new version raises: plain chords work all the same
        return f"{type(error).__name__}: {error}"
    for part in ("body", "headers", "properties", "content-type", "content-encoding"):
        if ours.get(part) != theirs.get(part):
            return f"{part}: {ours.get(part)!r} is not {theirs.get(part)!r}"
    return None if ours.keys() == theirs.keys() else f"fields: {sorted(ours)} are not {sorted(theirs)}"
