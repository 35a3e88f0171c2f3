"""A server that answers `snapshot_download` like the Hugging Face hub and has one model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.support.servers.local_http import LocalHttp, QuietHandler

NAME = "acme/tiny"
COMMIT = "a" * 40


class Handler(QuietHandler):
    owner: ModelHub

    def answer(self) -> None:
        folder = self.owner.folder
        path = self.path.partition("?")[0]
        file = folder / path.rpartition("/")[2]
        if path == f"/api/models/{NAME}/revision/main":
            listed = [{"rfilename": one.name} for one in folder.iterdir()]
            self.send(200, json.dumps({"id": NAME, "sha": COMMIT, "siblings": listed}).encode())
        elif path == f"/api/models/{NAME}/tree/{COMMIT}":
            tree = [
                {"type": "file", "path": one.name, "size": one.stat().st_size, "oid": _sha1(one)}
                for one in folder.iterdir()
            ]
            self.send(200, json.dumps(tree).encode())
        elif path.startswith(f"/{NAME}/resolve/{COMMIT}/") and file.is_file():
            stated = {
                "etag": f'"{_sha1(file)}"',
                "x-repo-commit": COMMIT,
                "content-length": str(file.stat().st_size),
            }
            self.send(200, b"" if self.command == "HEAD" else file.read_bytes(), stated)
        else:
            self.send(404, b"")


class ModelHub(LocalHttp):
    """Serves `folder` as the model NAME."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Handler)
        self.folder = folder


def _sha1(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
