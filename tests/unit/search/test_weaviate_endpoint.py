"""How a Weaviate is declared."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from models.endpoints import WeaviateEndpoint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"shards": 2},
            r"shards\n.*Input should be 1",
        ),
        ({"replicas": -1}, r"replicas\n.*greater than or equal to 0"),
        ({"quantiser": "pq"}, r"quantiser\n.*'none', 'rq' or 'bq'"),
    ],
)
def test_what_weaviate_does_not_have_is_refused_with_what_it_has(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        WeaviateEndpoint(**options)


def test_rest_and_grpc_cannot_share_a_port() -> None:
    with pytest.raises(ValidationError, match=r"grpc_port.*grpc_host"):
        WeaviateEndpoint(url="https://weaviate.example", grpc_port=443)
    with pytest.raises(ValidationError, match=r"grpc_port.*grpc_host"):
        WeaviateEndpoint(url="http://weaviate:50051", grpc_host="weaviate")
    behind = WeaviateEndpoint(
        url="https://weaviate.example", grpc_host="grpc.weaviate.example", grpc_port=443
    )
    assert behind.grpc_address == ("grpc.weaviate.example", 443)
