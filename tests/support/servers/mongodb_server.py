"""A server of MongoDB's protocol of its own (FerretDB over SQLite), with a login, and collections for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymongo import MongoClient

from tests.support.servers.own_server import OwnServer, free_ports
from tests.support.servers.services import offered

USER, PASSWORD = "farm", "sesame-0815"
DATABASE = "farm"


class MongodbServer(OwnServer):
    start_limit_s = 60.0

    def __init__(self) -> None:
        self._program = offered("ferretdb", "its tests want a real server; `.ci/run` builds it with Go")
        super().__init__("mongodb")
        self.port, status = free_ports(2)
        self._status = f"127.0.0.1:{status}"
        self.ready = f"http://{self._status}/debug/readyz"

    def url(self, password: str = PASSWORD) -> str:
        return f"mongodb://{USER}:{password}@127.0.0.1:{self.port}/"

    def launch(self) -> None:
        settings = {
            "handler": "sqlite",
            "sqlite-url": f"file:{self.folder}/",
            "state-dir": self.folder,
            "listen-addr": f"127.0.0.1:{self.port}",
            "debug-addr": self._status,
            "telemetry": "disable",
            "log-level": "ERROR",
            "setup-database": "admin",
            "setup-username": USER,
            "setup-password": PASSWORD,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._run([self._program, "--test-enable-new-auth", *options], cwd=self.folder)
        self.wait_ready()

    def insert(self, collection: str, documents: Iterable[Mapping[str, Any]]) -> None:
        with MongoClient[dict[str, Any]](self.url()) as client:
            client[DATABASE][collection].insert_many(dict(document) for document in documents)
