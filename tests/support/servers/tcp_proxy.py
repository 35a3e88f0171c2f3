"""A TCP proxy in front of a server: it can cut connections, slow them down, hold them still, lose their bytes, or turn callers away."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Self

_CHUNK = 65_536


class TcpProxy:
    """Forwards `port` on 127.0.0.1 to a unix socket or a (host, port); a context manager that starts and closes it."""

    def __init__(self, target: str | tuple[str, int]) -> None:
        self.target = target
        """Where new connections lead."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._dropped: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._is_closed = False
        self.delay_s = 0.0
        """How much later each piece arrives, in both directions."""
        self.is_refusing = False
        """New connections are closed at once."""
        self.stalls_at: bytes | None = None
        """Stall from the piece on that has these bytes."""
        self.accepted = 0
        """Connections there have been."""

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> int:
        """Closes every connection at once; returns the number of connections."""
        with self._lock:
            cut, self._open = self._open, set()
        for one in cut:
            _close(one)
        return len(cut) // 2

    def stall(self) -> None:
        """Holds all bytes, like a network that drops packets: nothing arrives, and no connection is closed."""
        self._flows.clear()

    def drop(self) -> int:
        """Loses all bytes of the connections there are, as a balancer that forgets idle ones: none is closed, and new ones
        work.  Returns the number of connections."""
        with self._lock:
            self._dropped |= self._open
        return len(self._dropped) // 2

    @property
    def is_stalled(self) -> bool:
        return not self._flows.is_set()

    def flow(self) -> None:
        """Forwards again, beginning with the held bytes, and stalls no more."""
        self.stalls_at = None
        self._flows.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        _close(self._listener)
        self.flow()
        self.cut()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            family = socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET
            server = socket.socket(family, socket.SOCK_STREAM)
            try:
                if self.is_refusing:
                    raise ConnectionRefusedError
                server.connect(self.target)
            except OSError:
                _close(caller)
                _close(server)
                continue
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {caller, server}
            for source, sink in ((caller, server), (server, caller)):
                threading.Thread(target=self._pump, args=(source, sink), name="proxy", daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_CHUNK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                if self.stalls_at is not None and self.stalls_at in piece:
                    self.stall()
                self._flows.wait()
                if source not in self._dropped:
                    sink.sendall(piece)
        with self._lock:
            self._open -= {source, sink}
        _close(source)
        _close(sink)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
