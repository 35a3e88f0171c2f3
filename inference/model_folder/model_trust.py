"""What an installation accepts as a model: its revision on the hub, and the hashes of its files when it was first seen."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.errors import ModelMissing

DESCRIPTION = (".json", ".txt", ".model")
"""Suffixes of the small files that describe a model."""


@dataclass(frozen=True, slots=True)
class ModelTrust:
    """How far a model is trusted.  Code that comes with a model is never run."""

    revision: str | None = None
    """Commit, tag or branch of a model on the hub; None: `main`."""
    hashes: Path | None = None
    """Folder for the hashes of models from the hub; None: they are not kept."""
    pickled: bool = False
    """Whether weights in Python's pickle format are loaded."""


DEFAULT_TRUST = ModelTrust()


def check_first_seen(name: str, commit: str, found: Mapping[str, str], trust: ModelTrust) -> None:
    """Compare SHA-256 by file with those that this installation saw first, and keep those of new files.

    Raises ModelMissing, with the names of the files that changed.
    """
    if trust.hashes is None:
        return
    kept = trust.hashes / f"{name}@{trust.revision or 'main'}.json".replace("/", "--")
    with _locked(trust.hashes):
        try:
            first = json.loads(kept.read_text("utf-8"))
            seen, known = str(first["commit"]), dict[str, str](first["files"])
        except FileNotFoundError:
            seen, known = commit, {}
        except (ValueError, KeyError, TypeError) as error:
            raise ModelMissing(
                f"{kept} cannot be read: {error!r}; delete it to trust {name} as it is now"
            ) from error
        # Weights may be missing, since they are downloaded later; the files that describe the model come together.
        gone = {path for path in known.keys() - found.keys() if path.endswith(DESCRIPTION)}
        other = {path for path, sha256 in found.items() if known.get(path, sha256) != sha256}
        if changed := sorted(gone | other | (set() if commit == seen else _added(found, known))):
            raise ModelMissing(
                f"{name} is not what this installation saw first (commit {seen}): {', '.join(changed)} changed; "
                f"declare that commit as its revision to keep it, or delete {kept} to accept the change"
            )
        if found.keys() - known.keys():
            written = kept.with_suffix(".new")
            written.write_text(json.dumps({"commit": seen, "files": {**known, **found}}, indent=1), "utf-8")
            written.replace(kept)


def _added(found: Mapping[str, str], known: Mapping[str, str]) -> set[str]:
    """What a later commit adds.  Weights that are downloaded for the first time are no addition."""
    had_weights = not all(path.endswith(DESCRIPTION) for path in known)
    return {path for path in found.keys() - known.keys() if had_weights or path.endswith(DESCRIPTION)}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
