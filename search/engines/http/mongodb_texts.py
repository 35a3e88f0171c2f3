"""The texts of a source's hits, by id from a collection of MongoDB."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import bson
import pymongo
from bson.errors import BSONError
from bson.objectid import ObjectId
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from models.declarations.sources import MongodbTexts
from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.engines.http.answer import at

_NUMERAL = re.compile(r"0|-?[1-9][0-9]{0,15}")
_NO_LOGIN = (13, 18, 8000)
"""Codes for a login that is wrong, missing or without the right to read; 8000 is Atlas's own."""


def _forms(id_: str | int) -> list[Any]:
    """The values that stand for an id of a hit; of those that the collection has, the first counts."""
    text = str(id_)
    # A number also finds a float, which MongoDB's shell stores.
    numbers = [int(text)] if _NUMERAL.fullmatch(text) else []
    texts = [text, *map(ObjectId, filter(ObjectId.is_valid, [text]))]
    return [*numbers, *texts] if isinstance(id_, int) else [*texts, *numbers]


class MongodbCollection:
    """Thread-safe; connects with the first call.  Errors name the variable with the address, and quote nothing of it."""

    def __init__(self, declared: MongodbTexts, url: str) -> None:
        """Raises ValueError or PyMongoError for an address that is not valid."""
        self._declared = declared
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url, connect=False)
        self._where = f"MongoDB at the address in {declared.url_env}"

    def texts(
        self, ids: Iterable[str | int], timeout_s: float, max_bytes: int
    ) -> dict[str | int, tuple[Any, Any]]:
        """Titles and texts by id.  Ids that the collection lacks are left out.  Raises StageFailure, also if the documents have more than
        `max_bytes`."""
        declared, timeout_s = self._declared, min(timeout_s, self._declared.timeout_s)
        fields = [field for field in (declared.id, declared.title, declared.text) if field is not None]
        forms = {id_: _forms(id_) for id_ in ids}
        wanted = {declared.id: {"$in": [*dict.fromkeys(chain(*forms.values()))]}}
        texts: dict[Any, tuple[Any, Any]] = {}
        read_bytes = 0
        try:
            with pymongo.timeout(timeout_s):
                collection = self._client[declared.database][declared.collection]
                projection = {"_id": False, **dict.fromkeys(fields, True)}
                batches: Iterable[Any] = collection.find_raw_batches(wanted, projection)
                for batch in batches:
                    read_bytes += len(batch)
                    if read_bytes > max_bytes:
                        raise InvalidAnswer(
                            f"{self._where} has texts of more than {max_bytes:,} bytes: lower max_hits, or raise max_bytes"
                        )
                    for document in bson.decode_all(batch):
                        id_ = at(document, declared.id)
                        if isinstance(id_, str | int | float | ObjectId):
                            texts[id_] = at(document, declared.title), at(document, declared.text)
        except (PyMongoError, BSONError) as error:
            raise self._failure(error, timeout_s) from None
        return {id_: texts[form] for id_ in forms for form in reversed(forms[id_]) if form in texts}

    def close(self) -> None:
        self._client.close()

    def _failure(self, error: Exception, timeout_s: float) -> StageFailure:
        if isinstance(error, OperationFailure) and error.code in _NO_LOGIN:
            return Unauthorised(f"{self._where} refuses the login, or the login may not read the collection")
        if isinstance(error, ServerSelectionTimeoutError):
            return StoreUnavailable(f"{self._where} cannot be reached within {timeout_s:.3g} s")
        if isinstance(error, ConfigurationError):
            return StoreUnavailable(f"{self._where}: DNS does not find its name")
        if isinstance(error, PyMongoError) and error.timeout:
            return StoreTimeout(f"{self._where} did not answer within {timeout_s:.3g} s")
        if isinstance(error, ConnectionFailure):
            return StoreUnavailable(f"{self._where} closed the connection")
        if isinstance(error, OperationFailure):
            name = (error.details or {}).get("codeName", error.code)
            return BadIndex(f"{self._where} refuses to read the collection: {name}")
        return InvalidAnswer(f"{self._where}: {type(error).__name__}")
