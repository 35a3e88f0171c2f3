"""A receiver of webhooks."""

from __future__ import annotations

import time

from tests.support.servers.certificates import Certificate
from tests.support.servers.local_http import LocalHttp, QuietHandler

SECRET = "a secret of the tests"


class Hook(LocalHttp):
    """Answers with the next of `statuses` and then with 204, and keeps what it got.  Status 0 sends a byte now and then."""

    class Handler(QuietHandler):
        owner: Hook

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.owner.got.append((self.path, dict(self.headers), body))
            status = self.owner.statuses.pop(0) if self.owner.statuses else 204
            while status == 0:
                self.wfile.write(b"H")
                time.sleep(0.05)
            self.send(status, b"", {"location": f"{self.owner.origin}/elsewhere"})

    def __init__(self, *statuses: int, certificate: Certificate | None = None) -> None:
        super().__init__(self.Handler, certificate)
        self.statuses = list(statuses)
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"{self.origin}/ended?of=jobs"
