"""What a caller gets wrong about documents is said at once, and nothing is sent."""

from __future__ import annotations

from typing import Any

import pytest
from chorale_client import Chorale, InvalidRequest
from chorale_client.limits import MAX_DELETED, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, MAX_METADATA_BYTES

TEA = {"id": "tea", "text": "Green tea."}


@pytest.fixture(scope="module")
def client() -> Chorale:
    """Of servers that are not there: who would send something is told so."""
    return Chorale("redis://127.0.0.1:1/0")


@pytest.mark.parametrize("ids", ["12", b"12", {"12": 1}, 12, None])
def test_a_single_id_instead_of_a_list_is_refused(client: Chorale, ids: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"^ids: a list, even of one; not a {type(ids).__name__}$"):
        client.delete("docs", ids)


@pytest.mark.parametrize("documents", [TEA, "tea", b"tea", 7, None])
def test_a_single_document_instead_of_a_list_is_refused(client: Chorale, documents: Any) -> None:
    with pytest.raises(
        InvalidRequest, match=f"^documents: a list, even of one; not a {type(documents).__name__}$"
    ):
        client.upsert("docs", documents)


def test_the_error_for_a_too_large_document_gives_its_number(client: Chorale) -> None:
    large = {"id": "book", "text": "é" * (MAX_DOCUMENT_BYTES // 2)}
    with pytest.raises(
        InvalidRequest, match=r"^documents: number 2: 16,777,\d+ bytes; at most 16,777,216 are"
    ):
        client.upsert("docs", [TEA, large, TEA])


def test_the_error_for_a_recursive_document_gives_its_number(client: Chorale) -> None:
    endless: dict[str, Any] = {"id": "endless"}
    endless["metadata"] = {"again": endless}
    with pytest.raises(InvalidRequest, match=r"^documents: number 2: not JSON: "):
        client.upsert("docs", [TEA, endless])


def test_too_large_metadata_is_refused_by_the_number_of_its_document(client: Chorale) -> None:
    for fields in ({"metadata": {"about": "x" * MAX_METADATA_BYTES}}, {"about": "x" * MAX_METADATA_BYTES}):
        with pytest.raises(
            InvalidRequest,
            match=r"^documents: number 2: metadata: 262,\d+ bytes; at most 262,144 are allowed$",
        ):
            client.upsert("docs", [TEA, TEA | fields])


def test_too_many_documents_and_ids_are_refused(client: Chorale) -> None:
    with pytest.raises(InvalidRequest, match=r"^documents: 1,001 in one message; at most 1,000 are allowed$"):
        client.upsert("docs", [TEA] * (MAX_DOCUMENTS + 1))
    with pytest.raises(InvalidRequest, match=r"^ids: 10,001 in one message; at most 10,000 are allowed$"):
        client.delete("docs", ["tea"] * (MAX_DELETED + 1))


def test_too_many_bytes_of_documents_are_refused(client: Chorale) -> None:
    large = {"id": "book", "text": "x" * (MAX_DOCUMENT_BYTES - 100)}
    with pytest.raises(
        InvalidRequest, match=r"^documents: 83,\d+,\d+ bytes in one message; at most 67,108,864 are"
    ):
        client.upsert("docs", [large] * 5)
