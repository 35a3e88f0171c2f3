"""Answers of a real HTTP server (`ChatServer`) for embedders and rerankers, computed by a local model."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from inference.protocol import Embedder, Reranker
from models.documents import Matrix
from tests.support.servers.chat_server import Answer, Handler


def embeds(embedder: Embedder, *, as_text: bool = False) -> Answer:
    """Embeds as OpenAI's `/embeddings` does, in the opposite order, or as the `/embed` of TEI or of Pinecone.

    `as_text`: OpenAI's vectors are lists of numbers, as of a server that ignores `encoding_format`.
    """

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        texts = body.get("inputs") or body["input"]
        is_pinecone = "parameters" in body
        if is_pinecone:
            texts = [one["text"] for one in texts]
        # Models of E5 servers are named after their side, as `e5-query`.
        side = body["parameters"]["input_type"] if is_pinecone else body.get("model", "")
        vectors = embedder.embed_questions(texts) if "query" in side else embedder.embed_passages(texts)
        if is_pinecone:
            rows = [{"vector_type": "dense", "values": vector} for vector in vectors.tolist()]
            usage = {"total_tokens": len(rows)}
            reply = {"model": body["model"], "vector_type": "dense", "data": rows, "usage": usage}
            handler.send(200, json.dumps(reply).encode())
        elif "inputs" in body:
            handler.send(200, json.dumps(vectors.tolist()).encode())
        else:
            encode = not as_text and body.get("encoding_format") == "base64"
            handler.send(200, embeddings(vectors, encode=encode))

    return answer


def embeddings(vectors: Matrix | Sequence[Sequence[float]], *, encode: bool = False) -> bytes:
    """An answer of OpenAI's protocol, its last vector first; it reports one token for each vector."""
    rows = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(vector.tobytes()).decode() if encode else list(map(float, vector)),
        }
        for at, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
    return json.dumps({"object": "list", "data": rows[::-1], "model": "served", "usage": usage}).encode()


def ranks(reranker: Reranker) -> Answer:
    """Scores as TEI's `/rerank` does, or as Cohere's with the sigmoid of the logits; the best passage first."""
    from fusion.rerank import sigmoid

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        texts = body.get("texts") or body["documents"]
        scores = reranker.score([(body["query"], text) for text in texts], limit_s=20).logits
        best = sorted(((logit or 0.0, at) for at, logit in enumerate(scores)), reverse=True)
        if "texts" in body:
            handler.send(200, json.dumps([{"index": at, "score": logit} for logit, at in best]).encode())
        else:
            results = [{"index": at, "relevance_score": sigmoid(logit)} for logit, at in best]
            handler.send(200, json.dumps({"id": "1", "results": results}).encode())

    return answer
