"""Pages of the console as a browser loads them: the time of each, and the processor time that it costs every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from urllib.parse import urlencode

from bench.http import SERVER
from bench.installation import NAMESPACE
from bench.timing import Variant
from bench.variants import SWEEPER
from models.errors import ServiceError

HITS = 100
PAGES = ("requests", "jobs", "health", "keys")


class Browser:
    """Logs in with the key, and loads pages over one connection."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/console/login", urlencode({"key": key}), form)
        response = self._connection.getresponse()
        response.read()
        self._headers = {"Cookie": (response.getheader("set-cookie") or "").partition(";")[0]}

    def load(self, path: str) -> None:
        """Raises ServiceError for anything but a page."""
        self._connection.request("GET", f"/console/{path}", headers=self._headers)
        response = self._connection.getresponse()
        response.read()
        if response.status != 200:
            raise ServiceError(f"/console/{path} is answered with {response.status}")


def make_variants(workers: Sequence[str], *, port: int, key: str) -> list[Variant]:
    """A search whose page has 100 hits, and the pages that stay open; `workers` are the processes that answer."""
    browser, running = Browser(port, key), (*workers, SWEEPER, SERVER)

    def search(text: str) -> None:
        browser.load(f"search?{urlencode({'q': text, 'namespace': NAMESPACE, 'top_k': HITS})}")

    def loads(page: str) -> Callable[[str], None]:
        return lambda _: browser.load(page)

    pages = [Variant(page, loads(page), running) for page in PAGES]
    return [Variant(f"search, {HITS} hits", search, running), *pages]
