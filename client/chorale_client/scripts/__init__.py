"""The Lua scripts that a caller needs, and how scripts are run; the service's own are in its `ledger` folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from redis import Redis
from redis.commands.core import Script

_HERE = files(__name__)
PRELUDE = _HERE.joinpath("prelude.lua").read_text(encoding="utf-8")


class Scripts:
    """The `*.lua` of a folder by name, on one server, each sent to it once; a caller's own where none is named.

    `prelude` stands in front of every script; another one brings another clock.
    """

    def __init__(self, client: Redis, folder: Traversable = _HERE, *, prelude: str = PRELUDE) -> None:
        self._client = client
        self._folder = folder
        self._prelude = prelude
        self._registered: dict[str, Script] = {}

    def run(self, name: str, keys: Sequence[Any] = (), args: Sequence[Any] = ()) -> Any:
        """Raises RedisError."""
        script = self._registered.get(name)
        if script is None:
            text = self._folder.joinpath(f"{name}.lua").read_text(encoding="utf-8")
            script = self._registered[name] = self._client.register_script(f"{self._prelude}\n{text}")
        return script(keys=list(keys), args=list(args))
