"""The corpus of an installation: which stores documents are indexed into, and the documents' database."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from config.declarations import Pipeline
from config.settings import Settings
from models.errors import BadIndex
from search.kinds import EmbeddedOptions

if TYPE_CHECKING:
    from models.documents import NamespaceState
    from search.documents.reading import Documents


class Corpus:
    """Thread-safe.  A command that lists namespaces needs no more of the `Resources`."""

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self.settings = settings
        self.pipeline = pipeline

    @property
    def written_stores(self) -> list[str]:
        """The names of the stores that documents are indexed into."""
        stores, kinds = self.pipeline.stores, self.pipeline.kinds.stores
        return [name for name, store in stores.items() if kinds[store.kind].writes]

    @property
    def is_on_one_machine(self) -> bool:
        """Whether documents are indexed into one embedded store and nowhere else: its folder then has the documents, too."""
        kinds = [self.pipeline.kinds.stores[self.pipeline.stores[name].kind] for name in self.written_stores]
        return [kind.in_home for kind in kinds] == [True]

    @property
    def documents_address(self) -> str | Path:
        """Where the documents are: the file of a single embedded store, or an address as SQLAlchemy takes it."""
        if self.is_on_one_machine:
            return self.file_of(self.written_stores[0])
        return self.settings.documents_database_url

    def file_of(self, name: str) -> Path:
        """The file in which an embedded store has the documents while it is the only store."""
        return self.folder_of(name) / "corpus.db"

    def folder_of(self, name: str) -> Path:
        """The folder of an embedded store."""
        return self.settings.home / EmbeddedOptions(**self.pipeline.stores[name].options).folder

    @cached_property
    def documents(self) -> Documents:
        """The documents' database; raises BadIndex if no store takes documents.

        It opens no server, so a process that only plans needs no store's password.
        """
        from search.documents.reading import Documents

        if not self.written_stores:
            raise BadIndex(
                f"no store of the pipeline takes documents; there are: {', '.join(self.pipeline.capabilities) or 'none'}; "
                "declare one of kind 'embedded', or of another kind that can be written"
            )
        return Documents(self.documents_address)

    def namespaces(
        self, *, after: str = "", limit: int | None = None, names: Collection[str] | None = None
    ) -> list[NamespaceState]:
        """As `lookups.namespaces`; none if no store takes documents.  Raises BadIndex, StoreUnavailable."""
        if not self.written_stores:
            return []
        return self.documents.namespaces(after=after, limit=limit, names=names)
