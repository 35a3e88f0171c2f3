"""Files that become documents: they are read here, within the limits of `chorale index`, and handed in; the ticket says how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from chorale_client.errors import InvalidRequest, describe_faults, safe_repr
from pydantic import ValidationError
from starlette.responses import Response

from access import changes
from api.namespaces import LARGEST_MESSAGE, Documents, get_ticket, upsert_documents
from console.pages import Page, Visit
from ingest.raw_documents import RawDocument, ReadLimits, Skipped
from ingest.read import FORMATS, read_documents

SOURCE = "upload"
"""Before the name of a file, the id of its document.  Lines of a file of records may have ids of their own."""
_NAMED = 5
"""Files that were left out and are named."""


async def show(visit: Visit) -> dict[str, Any]:
    return {"namespace": visit.parameters.get("namespace", ""), "suffixes": sorted(FORMATS)}


async def upload(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, OutOfScope, and InvalidRequest if nothing of the files can be read."""
    namespace = form.get("namespace", "").strip()
    visit.session.grant.check_namespace(namespace)
    if not visit.files:
        raise InvalidRequest("file: choose at least one")
    with TemporaryDirectory(prefix="chorale-upload-") as folder:
        paths = [await _saved(file.filename or "", await file.read(), Path(folder)) for file in visit.files]
        return await to_thread.run_sync(_hand_in, visit, namespace, paths, limiter=visit.services.uploads)


async def _saved(filename: str, content: bytes, folder: Path) -> Path:
    path = folder / PurePosixPath(filename.replace("\\", "/")).name
    try:
        await to_thread.run_sync(path.write_bytes, content)
    except (OSError, ValueError):
        raise InvalidRequest(f"file: no file can have the name {safe_repr(filename)}") from None
    return path


def _hand_in(visit: Visit, namespace: str, paths: list[Path]) -> str:
    grant, services = visit.session.grant, visit.services
    settings = services.settings
    limits = ReadLimits(settings.read_time_s, settings.read_memory_mb, settings.read_output_mb)
    read = list(read_documents(paths, source=SOURCE, ids="given", limits=limits))
    rows = [_row(item) for item in read if isinstance(item, RawDocument)]
    left_out = [f"{Path(item.path).name}: {item.why}" for item in read if isinstance(item, Skipped)]
    if not rows:
        raise InvalidRequest(f"file: nothing can be read. {'. '.join(left_out[:_NAMED])}")
    try:
        body = Documents.model_validate({"documents": rows})
    except ValidationError as error:
        raise InvalidRequest(describe_faults(error.errors(), place="file")) from None
    ticket = upsert_documents(namespace, body, grant, services, Response()).ticket
    changes.record(services.database, grant, visit.session.key_name, "upload documents", namespace)
    address = f"/corpus/{quote(namespace, safe='')}/tickets/{quote(ticket, safe='')}"
    if left_out:
        named = left_out[:_NAMED] + ([f"and {len(left_out) - _NAMED} more"] if len(left_out) > _NAMED else [])
        address += f"?{urlencode({'left_out': '. '.join(named)[:1_000]})}"
    return address


def _row(item: RawDocument) -> dict[str, Any]:
    return {
        "id": item.document_id,
        "title": item.title,
        "text": item.text,
        "metadata": dict(item.metadata),
        "markup": item.markup,
    }


async def show_ticket(visit: Visit) -> dict[str, Any]:
    """Raises OutOfScope, and UnknownRequest an hour after the end."""
    names = visit.request.path_params
    state = await to_thread.run_sync(
        lambda: get_ticket(
            names["namespace"], names["ticket"], visit.session.grant, visit.services, Response()
        )
    )
    left_out = visit.parameters.get("left_out", "")
    return {"namespace": names["namespace"], "left_out": left_out, **state.model_dump(mode="json")}


_WRITERS = ("documents:write",)
PAGES = (
    Page(
        "/upload",
        "Upload",
        "upload.html",
        show,
        _WRITERS,
        is_listed=False,
        post=upload,
        most_bytes=LARGEST_MESSAGE,
    ),
    Page(
        "/corpus/{namespace}/tickets/{ticket}",
        "Upload",
        "ticket.html",
        show_ticket,
        _WRITERS,
        is_listed=False,
    ),
)
