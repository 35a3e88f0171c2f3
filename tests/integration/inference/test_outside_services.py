"""Services of models that answer with anything: an encoder, a reranker and a language model behind an address."""

from __future__ import annotations

from typing import ClassVar

import pytest

from inference.endpoints.chat import ChatModel
from inference.endpoints.embedding import EndpointEmbedder
from inference.endpoints.reranking import EndpointReranker
from models.errors import StageFailure, StoreTimeout
from tests.contracts.outside_service import SECRET, Ask, OutsideServiceContract, with_secrets


class TestEncoders(OutsideServiceContract):
    RIGHT = b'{"data": [{"index": 0, "embedding": [1, 0]}]}'
    WRONG: ClassVar = {
        "NaN": b'{"data": [{"index": 0, "embedding": [1, NaN]}]}',
        "infinite": b'{"data": [{"index": 0, "embedding": [1, 1e999]}]}',
        "a huge integer": b'{"data": [{"index": 0, "embedding": [1, 1%s]}]}' % (b"0" * 400),
        "another length": b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}',
    }

    @pytest.fixture
    def ask(self) -> Ask:
        def ask(origin: str, timeout_s: float) -> object:
            embedder = EndpointEmbedder("tiny", url=with_secrets(origin), api_key=SECRET)
            return embedder.embed_questions(["a"], timeout_s=timeout_s)

        return ask


class TestRerankers(OutsideServiceContract):
    RIGHT = b'[{"index": 0, "score": 0.5}]'
    WRONG: ClassVar = {
        "NaN": b'[{"index": 0, "score": NaN}]',
        "infinite": b'[{"index": 0, "score": -1e999}]',
        "a huge integer": b'[{"index": 0, "score": 1%s}]' % (b"0" * 400),
        "another length": b'[{"index": 0, "score": 1}, {"index": 1, "score": 1}]',
    }

    @pytest.fixture
    def ask(self) -> Ask:
        def ask(origin: str, timeout_s: float) -> object:
            reranker = EndpointReranker("tiny", url=with_secrets(origin), api_key=SECRET)
            scores = reranker.score([("a", "b")], limit_s=timeout_s)
            if scores.logits == (None,):
                raise StoreTimeout("a pair without a score was too late")
            return scores

        return ask


class TestLanguageModels(OutsideServiceContract):
    RIGHT = b'{"choices": [{"message": {"content": "bread"}, "finish_reason": "stop"}]}'
    WRONG: ClassVar = {
        "NaN": b'{"choices": [{"message": {"content": NaN}}]}',
        "infinite": b'{"choices": [{"message": {"content": 1e999}}]}',
        "a huge integer": b'{"choices": [{"message": {"content": 1%s}}]}' % (b"0" * 400),
        "another length": b'{"choices": []}',
    }

    @pytest.fixture
    def ask(self) -> Ask:
        def ask(origin: str, timeout_s: float) -> object:
            chat = ChatModel(
                url=with_secrets(origin), api_key=SECRET, model="tiny", temperature=0, max_tokens=0
            )
            (text,) = chat.complete(["?"], timeout_s=timeout_s)
            if isinstance(text, StageFailure):
                raise text
            return text

        return ask
