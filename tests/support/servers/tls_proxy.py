"""TLS in front of a server without TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from typing import Self

from tests.support.servers.certificates import Certificate


class TlsProxy:
    """Forwards `port` on 127.0.0.1 to a (host, port); a context manager that starts and closes it.

    `clients`: if given, every caller must show a certificate of this authority.
    """

    def __init__(
        self, target: tuple[str, int], own: Certificate, *, clients: Certificate | None = None
    ) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(own.file, own.key_file)
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(clients.file)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls", daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._forward, "127.0.0.1", 0, ssl=self._context)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        flows = asyncio.all_tasks() - {asyncio.current_task()}
        for flow in flows:
            flow.cancel()
        await asyncio.gather(*flows, return_exceptions=True)

    async def _forward(self, caller: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(_flow(caller, to_server), _flow(from_server, answer))
        finally:
            for writer in (answer, to_server):
                writer.close()


async def _flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()
