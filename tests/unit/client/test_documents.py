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


@pytest.mark.parametrize("single", ["12", b"12", {"id": "tea", "text": "Green tea."}, 12, None])
def test_a_single_id_or_document_instead_of_a_list_is_refused(client: Chorale, single: Any) -> None:
    for hand_in, what in ((client.delete, "ids"), (client.upsert, "documents")):
        with pytest.raises(
            InvalidRequest, match=f"^{what}: a list, even of one; not a {type(single).__name__}$"
        ):
            hand_in("docs", single)


ENDLESS: dict[str, Any] = {"id": "endless"}
ENDLESS["metadata"] = {"again": ENDLESS}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"id": "book", "text": "é" * (MAX_DOCUMENT_BYTES // 2)},
            r"16,777,\d+ bytes; at most 16,777,216 are",
        ),
        (ENDLESS, "not JSON: "),
    ],
    ids=["too large", "recursive"],
)
def test_a_wrong_document_is_refused_by_its_number(client: Chorale, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^documents: number 2: {says}"):
        client.upsert("docs", [TEA, wrong, TEA])


def test_too_large_metadata_is_refused_by_the_number_of_its_document(client: Chorale) -> None:
    too_large = {"about": "x" * MAX_METADATA_BYTES}
    says = r"^documents: number 2: metadata: 262,\d+ bytes; at most 262,144 are allowed$"
    for fields in ({"metadata": too_large}, too_large):
        with pytest.raises(InvalidRequest, match=says):
            client.upsert("docs", [TEA, TEA | fields])


def test_too_many_documents_and_ids_are_refused(client: Chorale) -> None:
    with pytest.raises(InvalidRequest, match=r"^documents: 1,001 in one message; at most 1,000 are allowed$"):
        client.upsert("docs", [TEA] * (MAX_DOCUMENTS + 1))
    with pytest.raises(InvalidRequest, match=r"^ids: 10,001 in one message; at most 10,000 are allowed$"):
        client.delete("docs", ["tea"] * (MAX_DELETED + 1))


def test_too_many_bytes_of_documents_are_refused(client: Chorale) -> None:
    large = {"id": "book", "text": "x" * (MAX_DOCUMENT_BYTES - 100)}
    says = r"^documents: 83,\d+,\d+ bytes in one message; at most 67,108,864 are"
    with pytest.raises(InvalidRequest, match=says):
        client.upsert("docs", [large] * 5)
