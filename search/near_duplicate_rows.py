"""Groups of near-duplicates as SQL rows, read and written a batch of documents at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, bindparam, delete, func, insert, literal, select, update

from models.batching import in_batches
from models.documents import NearDuplicateGroup, Signature
from models.tables.documents import (
    band_table,
    group_table,
    member_table,
    near_duplicates_metadata,
    settings_table,
)

_AT_ONCE = 1_000
"""Values in one statement; databases limit their number."""
_G, _B, _M, _S = group_table.c, band_table.c, member_table.c, settings_table.c


class NearDuplicateRows:
    """The groups of one namespace; lives as long as one transaction."""

    def __init__(self, connection: Connection, namespace_id: int) -> None:
        self._connection = connection
        self._namespace_id = namespace_id
        self._highest: int | None = None

    def forget_other_settings(self, settings: str) -> None:
        """Delete all groups of the namespace if they were made with settings other than these."""
        query = select(_S.settings).where(self._mine(settings_table))
        if self._connection.scalar(query) != settings:
            for table in near_duplicates_metadata.sorted_tables:
                self._connection.execute(delete(table).where(self._mine(table)))
            self._insert(settings_table, [{"settings": settings}])

    def copy_from(self, namespace_id: int) -> None:
        """Have the groups of another build of the namespace, in place of its own."""
        for table in near_duplicates_metadata.sorted_tables:
            self._connection.execute(delete(table).where(self._mine(table)))
            others = [column for column in table.columns if column.name != "namespace_id"]
            rows = select(literal(self._namespace_id), *others).where(table.c.namespace_id == namespace_id)
            names = ["namespace_id", *(column.name for column in others)]
            self._connection.execute(insert(table).from_select(names, rows))

    def groups(
        self, names: Collection[str], numbers: Collection[int], bands: Collection[int]
    ) -> dict[int, tuple[str, Signature, int]]:
        """The groups with one of these names, numbers or bands: (name, signature, number of members) by group id."""
        # Each query reads one table. With a join, a database that misjudges a table's size reads all of it.
        with_band = select(_B.group_id).where(self._mine(band_table), _B.band.in_(bands)).distinct()
        group_ids = {*self._connection.scalars(with_band), *numbers}
        query = select(_G.group_id, _G.name, _G.signature, _G.members).where(self._mine(group_table))
        # Texts made from one template share bands, so there can be many groups.
        wanted = [
            _G.name.in_(names),
            *(_G.group_id.in_(part) for part in in_batches(sorted(group_ids), _AT_ONCE)),
        ]
        return {
            group_id: (name, np.frombuffer(raw, "<u4").astype(np.uint32), members)
            for condition in wanted
            for group_id, name, raw, members in self._connection.execute(query.where(condition))
        }

    def members(self, document_ids: Collection[str]) -> dict[str, int]:
        """Group id by document id; documents without a group are left out."""
        query = select(_M.document_id, _M.group_id).where(
            self._mine(member_table), _M.document_id.in_(document_ids)
        )
        return {row.document_id: row.group_id for row in self._connection.execute(query)}

    def has(self, name: str) -> bool:
        query = select(_G.group_id).where(self._mine(group_table), _G.name == name)
        return self._connection.scalar(query) is not None

    def next_id(self) -> int:
        if self._highest is None:
            query = select(func.max(_G.group_id)).where(self._mine(group_table))
            self._highest = self._connection.scalar(query) or 0
        self._highest += 1
        return self._highest

    def insert(self, begun: Sequence[NearDuplicateGroup]) -> None:
        self._insert(
            group_table,
            [
                {
                    "group_id": group.group_id,
                    "name": group.name,
                    "signature": group.signature.astype("<u4").tobytes(),
                    "members": group.members,
                }
                for group in begun
            ],
        )
        self._insert(
            band_table,
            [{"group_id": group.group_id, "band": band} for group in begun for band in sorted(group.bands)],
        )

    def delete(self, ended: Sequence[NearDuplicateGroup]) -> None:
        if not ended:
            return
        is_ended = and_(self._mine(group_table), _G.group_id.in_([group.group_id for group in ended]))
        self._connection.execute(delete(group_table).where(is_ended))
        is_band = and_(
            self._mine(band_table), _B.band == bindparam("its_band"), _B.group_id == bindparam("its_group")
        )
        pairs = [{"its_group": group.group_id, "its_band": band} for group in ended for band in group.bands]
        self._connection.execute(delete(band_table).where(is_band), pairs)

    def count(self, changed: Sequence[NearDuplicateGroup]) -> None:
        if changed:
            is_group = and_(self._mine(group_table), _G.group_id == bindparam("its_group"))
            statement = update(group_table).where(is_group).values(members=bindparam("now"))
            counted = [{"its_group": group.group_id, "now": group.members} for group in changed]
            self._connection.execute(statement, counted)

    def move(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Write which group each document is in; both mappings give group ids by document id."""
        departed = [name for name, group_id in before.items() if after.get(name) != group_id]
        if departed:
            is_departed = and_(self._mine(member_table), _M.document_id.in_(departed))
            self._connection.execute(delete(member_table).where(is_departed))
        joined = {name: group_id for name, group_id in after.items() if before.get(name) != group_id}
        self._insert(
            member_table, [{"document_id": name, "group_id": group_id} for name, group_id in joined.items()]
        )

    def _insert(self, table: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(
                insert(table), [{"namespace_id": self._namespace_id, **row} for row in rows]
            )

    def _mine(self, table: Any) -> Any:
        return table.c.namespace_id == self._namespace_id
