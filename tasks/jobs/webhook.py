"""A POST to the receiver that a job's submitter named, signed as Standard Webhooks (https://www.standardwebhooks.com) says.

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
from hashlib import sha256
from http.client import HTTPConnection
from urllib.parse import urlsplit

from config.callback_policy import is_public
from config.settings import Settings
from config.webhook_secrets import signing_keys
from models.errors import ServiceError

ANSWERS_WITHIN_S = 10.0
"""Time of a webhook, from the connection to the answer's status."""


class NotTold(ServiceError):
    """The receiver may not be called, or did not answer with 2xx."""


def post(message_id: str, body: bytes, url: str, settings: Settings, *, key_id: str | None = None) -> None:
    """POST this JSON, signed for the key whose job it tells of.  Raises NotTold, OSError, HTTPException; redirections are not followed."""
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
        raise NotTold(f"{host} answers {status}")


def checked_address(host: str, port: int, settings: Settings) -> str:
    """An address of this host.  Raises NotTold if any of its addresses is not public, unless CHORALE_WEBHOOK_HOSTS names the host."""
    addresses = [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if host not in settings.webhook_hosts:
        for address in addresses:
            if not is_public(address):
                raise NotTold(f"{host} is {address}, no public address, and not in CHORALE_WEBHOOK_HOSTS")
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
