"""Sends the end of a job to the receiver that its submitter named, at least once: by a Celery task or a webhook.

Whatever fails is tried again with growing pauses until the job is deleted.  A webhook is signed as Standard Webhooks
(https://www.standardwebhooks.com) says.

A submitter who may name any address would make this machine call its own services and those of its network.  Therefore every
address of the receiver's name must be public.  The call goes to an address that was checked, because the name may resolve to
another address a moment later.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.client import HTTPConnection
from urllib.parse import urlsplit

from celery import Celery
from pydantic_core import to_json
from structlog import get_logger

from config.callback_policy import check_on_end, is_public
from config.secret_keys import signing_keys
from config.settings import Settings
from models.errors import ServiceError
from records.jobs.job import Job
from tasks.callbacks.request_ends import Attempts, send
from tasks.wiring.resources import Resources

log = get_logger("chorale.jobs")


LONGEST_PAUSE_S = 3_600.0
NEXT_CELL_S = 30.0
"""The cells send an end in the order of their names.  Each cell gives the cell before it this time, which is longer than a webhook
may take."""
AT_ONCE = 8
"""Maximum number of threads that send."""


@dataclass(slots=True)
class _Callback(Attempts):
    thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class JobEnds:
    def __init__(self, app: Celery) -> None:
        self._app = app
        self._resources: Resources = app.resources
        settings = self._resources.settings
        own = settings.cell_at(self._resources.redis_url)
        self._patience_s = NEXT_CELL_S * sorted(settings.cells).index(own) if own else 0.0
        self._known: dict[str, _Callback] = {}
        """The attempts to send each end, by the id of its message."""

    def start_due(self, ended: Sequence[Job]) -> None:
        """Begin to send the ends that are due; returns at once.  `ended` are all jobs whose ends are not sent yet."""
        new = partial(_Callback, due_s=time.monotonic() + self._patience_s)
        self._known = {_message_id(job): self._known.get(_message_id(job)) or new() for job in ended}
        free = AT_ONCE - sum(callback.is_running for callback in self._known.values())
        for job in ended:
            callback = self._known[_message_id(job)]
            if free > 0 and not callback.is_running and callback.due_s <= time.monotonic():
                callback.thread = threading.Thread(
                    target=self._call, args=(job, callback), name="on_end", daemon=True
                )
                callback.thread.start()
                free -= 1

    def _call(self, job: Job, callback: _Callback) -> None:
        try:
            on_end, settings = job.on_end or {}, self._resources.settings
            check_on_end(on_end, settings)
            if "url" in on_end:
                body = to_json(job.to_wire())
                post(_message_id(job), body, on_end["url"], settings, key_id=on_end.get("key_id"))
            else:
                send_task(self._app, job, on_end["task"], on_end["queue"])
            self._resources.jobs.note_callback_sent(job.job_id, ended_at_ms=job.ended_at_ms)
            log.info("on_end told", job_id=job.job_id)
        except Exception as error:  # whatever a network or a broker's transport raises
            again_in_s = callback.failed(longest_s=LONGEST_PAUSE_S)
            log.warning("on_end not told", job_id=job.job_id, again_in_s=again_in_s, error=str(error)[:300])


def send_task(app: Celery, job: Job, task: str, queue: str) -> None:
    """Send the Celery task; raises if the broker does not have it in a queue of this name."""
    kwargs = {"job_id": job.job_id, "state": job.state, "outcome": job.outcome, "counts": job.counts}
    send(app, task, queue, kwargs=kwargs, task_id=_message_id(job), ignore_result=True)


def _message_id(job: Job) -> str:
    """The same for every attempt to send one end; a job that was answered again ends anew."""
    return f"{job.job_id}.{job.ended_at_ms}"


ANSWERS_WITHIN_S = 10.0
"""Time of a webhook, from the connection to the answer's status."""


class WebhookFailed(ServiceError):
    """The receiver may not be called, or did not answer with 2xx."""


def post(message_id: str, body: bytes, url: str, settings: Settings, *, key_id: str | None = None) -> None:
    """POST this JSON, signed for the key whose job it is about.  Raises WebhookFailed, OSError, HTTPException; redirections are not followed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = checked_address(host, port, settings)
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "chorale",
        **signed(message_id, body, signing_keys(settings, key_id)),
    }
    with closing(HTTPConnection(host, port)) as connection:
        connection.sock = sock = socket.create_connection((address, port), ANSWERS_WITHIN_S)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection.sock = sock = context.wrap_socket(
                sock, server_hostname=host, do_handshake_on_connect=False
            )
        # The timeout of the socket starts anew with each byte.
        limit = threading.Timer(ANSWERS_WITHIN_S, _shut, (sock,))
        limit.daemon = True
        limit.start()
        try:
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, headers)
            status = connection.getresponse().status
        finally:
            limit.cancel()
    if not 200 <= status < 300:
        raise WebhookFailed(f"{host} answers {status}")


def checked_address(host: str, port: int, settings: Settings) -> str:
    """An address of this host.  Raises WebhookFailed if any of its addresses is not public, unless CHORALE_WEBHOOK_HOSTS names the host."""
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if host not in settings.webhook_hosts:
        for address in addresses:
            if not is_public(address):
                raise WebhookFailed(
                    f"{host} is {address}, no public address, and not in CHORALE_WEBHOOK_HOSTS"
                )
    return addresses[0]


def signed(
    message_id: str, body: bytes, keys: Sequence[bytes], *, now_s: float | None = None
) -> dict[str, str]:
    """The headers; for each key `v1,` and the base64 of HMAC-SHA256 over `<id>.<seconds since 1970>.<body>`."""
    at = str(int(time.time() if now_s is None else now_s))
    content = b".".join([message_id.encode(), at.encode(), body])
    digests = [hmac.new(key, content, sha256).digest() for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": at,
        "webhook-signature": " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests),
    }


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
