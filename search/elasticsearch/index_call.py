"""One call of the store on one namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from search.deadline import Deadline
from search.elasticsearch.connection import Call, Connection
from search.elasticsearch.index_layout import Namespace


@dataclass(frozen=True, slots=True)
class IndexCall:
    """The deadline holds for all requests of the call together."""

    connection: Connection
    namespace: Namespace
    deadline: Deadline

    @property
    def address(self) -> str:
        return self.connection.address

    def ask(self, call: Call) -> Any:
        return self.connection.ask(call, self.deadline)
