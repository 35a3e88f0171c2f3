"""Files that become documents: they are read here, within the limits of `chorale index`, and handed in; the ticket says how far they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from chorale_client.errors import InvalidRequest, safe_repr
from starlette.responses import Response

from api.namespaces import LARGEST_MESSAGE, Documents, get_ticket, upsert_documents
from console.pages import Page, Visit, checked
from ingest.raw_documents import RawDocument, ReadLimits, Skipped
from ingest.read import FORMATS, read_documents
from records.keys import changes

SOURCE = "upload"
"""Before the name of a file, the id of its document.  Lines of a file of records may have ids of their own."""
_LONGEST = 1_000
"""Characters that name files that were left out."""


async def show(visit: Visit) -> dict[str, Any]:
    return {"namespace": visit.parameters.get("namespace", ""), "suffixes": sorted(FORMATS)}


async def upload(visit: Visit, form: Mapping[str, str]) -> str:
    """Raises Forbidden, OutOfScope, and InvalidRequest if nothing of the files can be read."""
    namespace = form.get("namespace", "").strip()
    visit.session.grant.check_namespace(namespace)
    if not visit.files:
        raise InvalidRequest("file: choose at least one")
    with TemporaryDirectory(prefix="chorale-upload-") as folder:
        return await to_thread.run_sync(
            _hand_in, visit, namespace, Path(folder), limiter=visit.services.uploads
        )


def _hand_in(visit: Visit, namespace: str, folder: Path) -> str:
    grant, services = visit.session.grant, visit.services
    settings = services.settings
    limits = ReadLimits(settings.read_time_s, settings.read_memory_mb, settings.read_output_mb)
    names = [PurePosixPath(name.replace("\\", "/")).name for name, _ in visit.files]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidRequest(f"file: several files have the name {safe_repr(repeated[0])}")
    paths = [_saved(folder, name, content) for name, (_, content) in zip(names, visit.files, strict=True)]
    read = list(read_documents(paths, source=SOURCE, ids="given", limits=limits))
    rows = [_row(item) for item in read if isinstance(item, RawDocument)]
    skipped = [f"{Path(item.path).name}: {item.why}" for item in read if isinstance(item, Skipped)]
    if not rows:
        raise InvalidRequest(f"file: nothing can be read. {'. '.join(skipped)[:_LONGEST]}")
    body = checked(Documents, {"documents": rows}, place="file")
    ticket = upsert_documents(namespace, body, grant, services, Response()).ticket
    changes.record(services.database, grant, visit.session.key_name, "upload documents", namespace)
    parameters = {"left_out": ". ".join(skipped)[:_LONGEST]} if skipped else {}
    return f"/corpus/{quote(namespace, safe='')}/tickets/{quote(ticket, safe='')}?{urlencode(parameters)}"


def _saved(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    try:
        path.write_bytes(content)
    except (OSError, ValueError):
        raise InvalidRequest(f"file: no file can have the name {safe_repr(name)}") from None
    return path


def _row(item: RawDocument) -> dict[str, Any]:
    fields = {name: getattr(item, name) for name in ("title", "text", "metadata", "markup", "page_starts")}
    return {"id": item.document_id, **fields}


async def show_ticket(visit: Visit) -> dict[str, Any]:
    """Raises OutOfScope, and UnknownRequest an hour after the end."""
    namespace, ticket = (visit.request.path_params[name] for name in ("namespace", "ticket"))
    state = await to_thread.run_sync(
        get_ticket, namespace, ticket, visit.session.grant, visit.services, Response()
    )
    return {
        "namespace": namespace,
        "left_out": visit.parameters.get("left_out", ""),
        **state.model_dump(mode="json"),
    }


_TICKET = "/corpus/{namespace}/tickets/{ticket}"
_WRITERS = ("documents:write",)
PAGES = (
    Page("/upload", "Upload", "upload.html", show, _WRITERS, False, upload, LARGEST_MESSAGE),
    Page(_TICKET, "Upload", "ticket.html", show_ticket, _WRITERS, is_listed=False),
)
