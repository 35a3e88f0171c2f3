"""LangChain's retriever: `pip install -e './client[langchain]'`."""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field, PrivateAttr

from chorale_client.adapters import needs
from chorale_client.adapters.connection import Connection, OnCoverage, Retrieved
from chorale_client.request_factory import RequestOptions

with needs("langchain"):
    from langchain_core.callbacks.manager import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever


class ChoraleRetriever(BaseRetriever):
    """`invoke` and `ainvoke` take options of one call: `retriever.invoke("...", top_k=3, filters={"year": 2024})`.

    Each document has its `score` and the `coverage` of the answer in its metadata.
    """

    redis_url: str | None = Field(None, repr=False)
    """The Redis of the pipeline."""
    broker_url: str | None = Field(None, repr=False)
    """Celery's broker, if that is another server."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Fields of `Request` for every call."""
    on_coverage: OnCoverage | None = Field(None, repr=False)
    """Called with the coverage of each answer, also of one without documents."""
    _connection: Connection = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._connection = Connection(
            self.redis_url,
            broker_url=self.broker_url,
            options=cast("RequestOptions", self.options),
            on_coverage=self.on_coverage,
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return _documents(self._connection.ask(query, options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return _documents(await self._connection.ask_async(query, options))


def _documents(retrieved: Retrieved) -> list[Document]:
    return [
        Document(
            id=document.passage_id,
            page_content=document.text,
            metadata={**document.metadata, "coverage": retrieved.coverage},
        )
        for document in retrieved.documents
    ]
