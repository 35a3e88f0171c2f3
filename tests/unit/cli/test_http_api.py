"""The HTTP API under `chorale up`: its address, and the first key of a home."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cli.local.ports import Address
from cli.local.servers import api_lines, curl, own_key, with_servers
from config.settings import Settings
from models.errors import WrongDeclaration
from monitoring.heartbeats import Heartbeat
from records.database import upgrade
from records.keys.grant import Grant
from records.keys.key_store import KeyStore

HERE = Address("127.0.0.1", 8000)


@pytest.mark.parametrize(
    ("text", "host", "port", "normalized"),
    [
        ("8080", "127.0.0.1", 8080, "127.0.0.1:8080"),
        ("0.0.0.0:80", "0.0.0.0", 80, "0.0.0.0:80"),
        ("[::1]:8000", "::1", 8000, "[::1]:8000"),
        ("localhost:1", "localhost", 1, "localhost:1"),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int, normalized: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, normalized)
    assert address.is_loopback == (host != "0.0.0.0")


@pytest.mark.parametrize("text", ["", "x", "host:", "host:x", ":0", "65536", "1.2.3.4:-1", "[::1]"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(WrongDeclaration, match=r"is no address such as 127\.0\.0\.1:8000"):
        Address.parse(text)


def test_the_api_has_a_heartbeat_while_it_answers() -> None:
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    calls: list[Sequence[str]] = []

    def worker_heartbeats(names: Sequence[str]) -> Mapping[str, Heartbeat | None]:
        calls.append(names)
        return {"bm25-1": None}

    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        heartbeats = with_servers(worker_heartbeats, Address("127.0.0.1", server.server_port), None)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert heartbeats(["bm25-1", "http"]) == {"bm25-1": None, "http": Heartbeat("http", 0.0, True)}
        server.shutdown()
        thread.join()
    assert heartbeats(["bm25-1", "http"]) == {"bm25-1": None}
    assert calls == [["bm25-1"]] * 2


def test_the_first_key_of_a_home_may_search_and_is_made_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    file = own_key(settings)
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    assert own_key(settings) == file
    with closing(KeyStore(settings.audit_database_url)) as store:
        (key,) = store.list(10)
        grant = store.find(file.read_text().strip())
    assert grant is not None
    assert grant.key_id == key.key_id
    assert grant.scopes == {"search:run", "search:read", "audit:read"}
    assert api_lines(settings, HERE)[1] == f"console: http://127.0.0.1:8000/, with the key in {file}"


def test_a_home_whose_operator_has_made_keys_gets_no_other(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    upgrade(settings.audit_database_url)
    with closing(KeyStore(settings.audit_database_url)) as store:
        store.create(Grant("", "acme", None, frozenset({"search:run"})))
    assert own_key(settings) is None
    assert api_lines(settings, HERE)[-1] == "it asks for a key: `chorale keys create --help`"


def test_a_key_is_made_only_for_this_machine_and_its_own_database(tmp_path: Path) -> None:
    elsewhere = api_lines(Settings(home=tmp_path), Address("0.0.0.0", 8000))
    assert "put a proxy with TLS in front of it" in elsewhere[1]
    shared = Settings(home=tmp_path, audit_url="postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert api_lines(shared, HERE)[-1] == elsewhere[-1]
    assert not (tmp_path / "http_key").exists()


def test_the_shell_reads_the_line_with_a_home_that_has_spaces(tmp_path: Path) -> None:
    key = tmp_path / "my home" / "http_key"
    key.parent.mkdir()
    key.write_text("secret\n")
    line = curl(HERE, key).replace("curl", "printf '%s\\n'", 1)
    said = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:3] == ["http://127.0.0.1:8000/v1/searches", "-H", "Authorization: Bearer secret"]
