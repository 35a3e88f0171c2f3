"""The `embedded` kind of store: SQLite, tantivy and numpy, in files of this machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from models.extensions import Declared, Need, StoreKind

if TYPE_CHECKING:
    from search.embedded.store import EmbeddedStore


class EmbeddedOptions(Declared):
    folder: str = Field("corpus", min_length=1, pattern=r"^[^\\0]+$")
    """The folder of its documents: an absolute path, or a path inside the installation's folder."""


def open_embedded(
    name: str, options: Mapping[str, Any], *, home: Path, needs: Collection[Need]
) -> EmbeddedStore:
    # tantivy and numpy take .2 s to import.
    from search.embedded.store import EmbeddedStore

    return EmbeddedStore(
        home / EmbeddedOptions(**options).folder,
        warm_text="text" in needs,
        warm_vectors="vectors" in needs,
    )


KIND = StoreKind(open_embedded, options=EmbeddedOptions, writes=True, in_home=True)
