"""The texts of a source's hits, by id from a collection of MongoDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymongo
from bson.errors import BSONError
from bson.objectid import ObjectId
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError, ServerSelectionTimeoutError

from models.endpoints import MongodbTexts
from models.errors import BadIndex, InvalidAnswer, StageFailure, StoreTimeout, StoreUnavailable, Unauthorised
from search.engines.http.answer import at

_NO_LOGIN = (13, 18, 8000)
"""Codes for a login that is wrong, missing or without the right to read; 8000 is Atlas's own."""


class MongodbCollection:
    """Thread-safe; connects with the first call.  Errors name the variable with the address, and quote nothing of it."""

    def __init__(self, declared: MongodbTexts, url: str) -> None:
        """Raises ValueError or PyMongoError for an address that is not valid."""
        self._declared = declared
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url, connect=False)
        self._where = f"MongoDB at the address in {declared.url_env}"

    def documents(self, ids: Sequence[Any], timeout_s: float) -> dict[Any, Mapping[str, Any]]:
        """By id, without those that are not there; raises StageFailure."""
        declared, timeout_s = self._declared, min(timeout_s, self._declared.timeout_s)
        fields = [field for field in (declared.id, declared.title, declared.text) if field is not None]
        wanted = {declared.id: {"$in": [*ids, *(ObjectId(one) for one in ids if ObjectId.is_valid(one))]}}
        try:
            with pymongo.timeout(timeout_s):
                collection = self._client[declared.database][declared.collection]
                found = list(collection.find(wanted, {"_id": False, **dict.fromkeys(fields, True)}))
        except (PyMongoError, BSONError) as error:
            raise self._failure(error, timeout_s) from None
        named = ((at(document, declared.id), document) for document in found)
        return {str(id_) if isinstance(id_, ObjectId) else id_: document for id_, document in named}

    def close(self) -> None:
        self._client.close()

    def _failure(self, error: Exception, timeout_s: float) -> StageFailure:
        if isinstance(error, OperationFailure) and error.code in _NO_LOGIN:
            return Unauthorised(f"{self._where} refuses the login, or the login may not read the collection")
        if isinstance(error, ServerSelectionTimeoutError):
            return StoreUnavailable(f"{self._where} cannot be reached within {timeout_s:.3g} s")
        if isinstance(error, PyMongoError) and error.timeout:
            return StoreTimeout(f"{self._where} did not answer within {timeout_s:.3g} s")
        if isinstance(error, ConnectionFailure):
            return StoreUnavailable(f"{self._where} closed the connection")
        if isinstance(error, OperationFailure):
            name = (error.details or {}).get("codeName", error.code)
            return BadIndex(f"{self._where} refuses to read the collection: {name}")
        return InvalidAnswer(f"{self._where}: {type(error).__name__}")
