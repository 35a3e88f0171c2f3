"""How a Weaviate is declared."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from models.declarations.engines import WeaviateEndpoint


def test_rest_and_grpc_cannot_share_a_port() -> None:
    with pytest.raises(ValidationError, match=r"grpc_port.*grpc_host"):
        WeaviateEndpoint(url="https://weaviate.example", grpc_port=443)
    with pytest.raises(ValidationError, match=r"grpc_port.*grpc_host"):
        WeaviateEndpoint(url="http://weaviate:50051", grpc_host="weaviate")
    behind = WeaviateEndpoint(
        url="https://weaviate.example", grpc_host="grpc.weaviate.example", grpc_port=443
    )
    assert behind.grpc_address == ("grpc.weaviate.example", 443)
