"""A server that answers `snapshot_download` like the Hugging Face hub and has one model, in one or several revisions."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tests.support.servers.local_http import LocalHttp, QuietHandler

NAME = "acme/tiny"
COMMIT = "a" * 40


class Handler(QuietHandler):
    owner: ModelHub

    def answer(self) -> None:
        target = re.fullmatch(
            rf"/(api/models/)?{NAME}/(revision|tree|resolve)/([^/?]+)/?([^?]*).*", self.path
        )
        commit, folder = self.owner.revisions.get(target[3] if target else "", ("", Path()))
        if not target or not commit:
            self.send(404, b"", {"x-error-code": "RevisionNotFound"} if target else {})
            return
        files = {one.relative_to(folder).as_posix(): one for one in folder.rglob("*") if one.is_file()}
        if target[2] == "revision":
            listed = [{"rfilename": name} for name in files]
            self.send(200, json.dumps({"id": NAME, "sha": commit, "siblings": listed}).encode())
        elif target[2] == "tree":
            tree = [
                {"type": "file", "path": name, "size": one.stat().st_size, "oid": _sha1(one)}
                for name, one in files.items()
            ]
            self.send(200, json.dumps(tree).encode())
        elif file := files.get(target[4]):
            stated = {
                "etag": f'"{_sha1(file)}"',
                "x-repo-commit": commit,
                "content-length": str(file.stat().st_size),
            }
            self.send(200, b"" if self.command == "HEAD" else file.read_bytes(), stated)
        else:
            self.send(404, b"")


class ModelHub(LocalHttp):
    """Serves `folder` as the model NAME, its branch `main` at COMMIT."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Handler)
        self.revisions = dict[str, tuple[str, Path]]()
        """Commit and folder by branch, tag and commit."""
        self.publish("main", COMMIT, folder)

    def publish(self, revision: str, commit: str, folder: Path) -> None:
        self.revisions[revision] = self.revisions[commit] = (commit, folder)


def _sha1(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()
