"""One address that follows the primary, as HAProxy has it on each host: `python -m tests.machines.primary_address PORT CA SENTINEL...`.

It asks the sentinels who the primary is, and cuts every connection when that changes.  A line `0.2` on its input delays each
piece by that many seconds in both directions, as a far network does: no piece waits for another.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

PRIMARY = "chorale"
ASKS_EVERY_S = 0.1


class PrimaryAddress:
    def __init__(self, ca_file: str, sentinels: list[str]) -> None:
        self._sentinels = [
            Redis.from_url(
                f"rediss://{host}:26379?ssl_ca_certs={ca_file}",
                socket_timeout=0.5,
                socket_connect_timeout=0.5,
            )
            for host in sentinels
        ]
        self._primary: tuple[str, int] | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.delay_s = 0.0

    async def follow(self) -> None:
        while True:
            votes = await asyncio.gather(*(self._vote(sentinel) for sentinel in self._sentinels))
            for vote in {vote for vote in votes if vote and votes.count(vote) * 2 > len(votes)} - {
                self._primary
            }:
                self._primary = vote
                for writer in self._open:
                    writer.transport.abort()
            await asyncio.sleep(ASKS_EVERY_S)

    async def _vote(self, sentinel: Redis) -> tuple[str, int] | None:
        with suppress(RedisError, OSError):
            said = await sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY)
            host, port = (part.decode() if isinstance(part, bytes) else str(part) for part in said)
            return host, int(port)
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            assert self._primary is not None
            there, back = await asyncio.open_connection(*self._primary)
            self._open.add(back)
            try:
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
            finally:
                self._open.discard(back)
                back.transport.abort()
        except (OSError, AssertionError):
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while piece := await source.read(65_536):
                if self.delay_s:
                    loop.call_later(self.delay_s, sink.write, piece)
                else:
                    sink.write(piece)
        loop.call_later(self.delay_s, sink.close)


async def main(port: int, ca_file: str, sentinels: list[str]) -> None:
    address = PrimaryAddress(ca_file, sentinels)
    loop = asyncio.get_running_loop()

    def listen() -> None:
        address.delay_s = float(sys.stdin.readline() or 0)

    loop.add_reader(sys.stdin, listen)
    await asyncio.start_server(address.serve, "127.0.0.1", port)
    await address.follow()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
