"""The models that a pipeline declares: encoders, which turn texts into vectors, and rerankers; on this machine or behind an
endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from models.declarations.extensions import Declared, Revision, Variable
from models.errors import NotConfigured

DEFAULT_ENCODER = "default"
"""The encoder of a namespace that names none: the table [encoders.default], else the model of `CHORALE_EMBEDDER`."""

Device = Annotated[str, Field(pattern=r"^(cpu|mps|cuda(:\d{1,2})?)$")]


def checked_address(url: str) -> str:
    """Raises ValueError unless it is a whole address without a login."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError("an address is http://HOST/v1 or https://HOST/v1")
    if "@" in parts.netloc:
        raise ValueError("no key belongs in an address: name its variable in api_key_env")
    if "#" in url:
        raise ValueError("an address has no fragment (#)")
    return url


Address = Annotated[str, AfterValidator(checked_address)]


def key_in(variable: str | None) -> str | None:
    """The key in an environment variable; None if no variable is named.  Raises NotConfigured if it is not set, or no header can carry
    the key."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if key and key.isascii() and key.isprintable():
        return key
    why = "holds characters that no header can carry" if key else "is not set"
    raise NotConfigured(f"the variable {variable}, which api_key_env names, {why}")


class EncoderDeclaration(Declared):
    """An encoder on this machine."""

    name: str
    kind: str = "onnx"
    """`onnx`: the BERT family, and models with an ONNX file; `sentence_transformers`: any model (needs `make torch`)."""
    model: str = Field(min_length=1)
    """A name on the Hugging Face hub, or a folder."""
    revision: Revision | None = None
    """Commit, tag or branch of a model on the hub; None: `main`."""
    question_prompt: str | None = Field(None, max_length=1_000)
    """Stands before each question; None: what a known model needs (`chorale models`), else what its folder says."""
    passage_prompt: str | None = Field(None, max_length=1_000)
    dimensions: int | None = Field(None, ge=1, le=8_192)
    """Only the first numbers of each vector, for models that were trained for that (Matryoshka); None: all."""
    precision: Literal["fp32", "int8"] = "fp32"
    """Of the passages; `int8` (only `onnx` with the BERT family) is about twice as fast."""
    question_precision: Literal["fp32", "int8"] = "fp32"
    device: Device | None = None
    """`cpu`, `cuda`, `cuda:1`, `mps`; None: CUDA if the library and the machine have it."""


class EndpointEncoder(Declared):
    """An encoder behind an address.  The texts leave this machine."""

    name: str
    kind: Literal["endpoint"]
    url: Address
    """Up to and including `/v1` for the API `openai`; of the server for `tei` and `pinecone`."""
    model: str = Field(min_length=1, max_length=256)
    question_model: str | None = Field(None, min_length=1, max_length=256)
    """The model's name for questions, if the server has two."""
    api: Literal["openai", "tei", "pinecone"] = "openai"
    """`openai`: `/embeddings`, as OpenAI, vLLM, Ollama, LiteLLM and Infinity have it; `tei`: `/embed`; `pinecone`: `/embed` of
    Pinecone, which puts the prompts of its models before questions and passages itself."""
    api_key_env: Variable | None = None
    """The environment variable that holds the key; not declared: no key is sent."""
    ca_file: str | None = None
    question_prompt: str | None = Field(None, max_length=1_000)
    """Stands before each question; None: what a known model needs (`chorale models`), else nothing; with `pinecone` nothing."""
    passage_prompt: str | None = Field(None, max_length=1_000)
    dimensions: int | None = Field(None, ge=1, le=8_192)
    """The server is asked for as many numbers, and longer vectors are cut; None: as many as the model gives."""
    batch: int = Field(32, ge=1, le=2_048)
    """Texts of one call."""
    parallel: int = Field(4, ge=1, le=64)
    """Calls of one process at the same time."""
    tokenizer: str | None = None
    """The model's `tokenizer.json`, by which passages are measured; None: an estimate."""
    max_pieces: int = Field(512, ge=16, le=32_768)
    """The longest text that the model reads, in word pieces."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def client_options(self) -> dict[str, Any]:
        """What the client of an endpoint takes.  The key is read at the first use, which raises NotConfigured if it is not set."""
        return {
            **self.model_dump(exclude={"name", "kind", "model", "api_key_env"}),
            "api_key": partial(key_in, self.api_key_env),
        }


DeclaredEncoder = EncoderDeclaration | EndpointEncoder

ENCODER_KINDS: Mapping[str, type[EncoderDeclaration] | type[EndpointEncoder]] = MappingProxyType(
    {"onnx": EncoderDeclaration, "sentence_transformers": EncoderDeclaration, "endpoint": EndpointEncoder}
)
"""What a table [encoders.NAME] declares, by its `kind`."""


class RerankerDeclaration(Declared):
    """A cross-encoder that reorders the best fused hits, in the fusion workers."""

    name: str
    model: str = Field(min_length=1)
    """A sentence-transformers CrossEncoder: a name on the Hugging Face hub, or a folder."""
    revision: Revision | None = None
    """Commit, tag or branch of a model on the hub; None: `main`."""
    backend: Literal["onnx", "sentence_transformers", "endpoint"] = "onnx"
    """`onnx`: the BERT family, without PyTorch; `sentence_transformers`: any (needs `make torch`); `endpoint`: a server."""
    url: Address | None = None
    """Of an endpoint: the address before `/rerank`.  Questions and passages leave this machine."""
    api: Literal["tei", "cohere", "jina"] = "tei"
    """Of an endpoint: the form of its answers.  vLLM and Infinity have Jina's."""
    api_key_env: Variable | None = None
    """The environment variable that holds the key; not declared: no key is sent."""
    ca_file: str | None = None
    device: Device | None = None
    """`cpu`, `cuda`, `cuda:1`, `mps`; None: CUDA if the backend and the machine have it."""
    precision: Literal["fp32", "int8"] = "fp32"
    """`int8` is faster, with slightly different scores; only `onnx` on a CPU computes in it."""
    depth: int = Field(50, ge=1, le=1_000)
    """How many of the best fused hits of a question it scores; fewer if its measured speed allows no more."""
    coarse: int = Field(100, ge=1, le=1_000)
    """How many of the best fused hits their scores are normalised over."""
    budget_ms: int = Field(400, ge=10, le=30_000)
    """Milliseconds of a request that are kept for it, and taken from the branches; 400 ms are a fifth of the usual 2 s."""
    weight: float = Field(0.7, gt=0, le=1, strict=False)
    """The share of its score; the fused score has the rest."""
    max_pieces: int = Field(128, ge=16, le=8_192)
    """Maximum word pieces of question and passage together; a MiniLM scores 21 such pairs in 400 ms on one core."""
    batch: int | None = Field(None, ge=1, le=2_048)
    """Of an endpoint: maximum passages of one request; not declared: 32 with TEI, else 100."""

    @property
    def client_options(self) -> dict[str, Any]:
        """What the client of an endpoint takes.  The key is read at the first use, which raises NotConfigured if it is not set."""
        included = {"url", "api", "ca_file", *({"max_pieces", "batch"} & self.model_fields_set)}
        return {**self.model_dump(include=included), "api_key": partial(key_in, self.api_key_env)}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.coarse < self.depth:
            raise ValueError(f"coarse: {self.coarse} is less than depth, which is {self.depth}")
        if (self.backend == "endpoint") != (self.url is not None):
            raise ValueError("url: the backend endpoint needs one, and no other backend has one")
        if self.batch is not None and self.url is None:
            raise ValueError("batch: only the backend endpoint has one")
        if self.backend == "onnx" and self.device == "mps":
            raise ValueError("device: the backend onnx runs on cpu and cuda, not on mps")
        return self
