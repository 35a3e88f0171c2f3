"""The Lua scripts that a caller needs, and how scripts are run; the service's own are in its `ledger` folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from redis import Redis
from redis.commands.core import Script
from redis.exceptions import NoScriptError

from chorale_client import keys
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from chorale_client.terminal_answers import CANCELLED_QUESTION, CANCELLED_UNTIL_QUESTIONS
from chorale_client.wire_names import QUEUE_FUSION, STARTED_RESULT

_HERE = files(__name__)


def prelude(constants: ProtocolConstants = PROTOCOL) -> str:
    """The text in front of every script: the names of `keys`, the constants, and the functions of `prelude.lua`."""
    names = {name: f"'{value}'" for name, value in vars(keys).items() if name.isupper()}
    names |= {name.upper(): str(value) for name, value in asdict(constants).items()}
    names["QUEUE_FUSION"], names["STARTED_RESULT"] = f"'{QUEUE_FUSION}'", f"'{STARTED_RESULT}'"
    names["CANCELLED_UNTIL_QUESTIONS"] = f"'{CANCELLED_UNTIL_QUESTIONS}'"
    names["CANCELLED_QUESTION"] = f"'{CANCELLED_QUESTION}'"
    functions = _HERE.joinpath("prelude.lua").read_text(encoding="utf-8")
    return f"local {', '.join(names)} =\n  {', '.join(names.values())}\n{functions}"


PRELUDE = prelude()
_CALLS = re.compile(r"^-- calls  (.+)$", re.MULTILINE)


def script_text(name: str, folder: Traversable = _HERE, *, prelude: str = PRELUDE) -> str:
    """The whole text of a script, as it is sent to the server."""
    return f"{prelude}\n{_with_called(name, folder)}"


def _with_called(name: str, folder: Traversable) -> str:
    file = folder.joinpath(f"{name}.lua")
    text = (file if file.is_file() else _HERE.joinpath(f"{name}.lua")).read_text(encoding="utf-8")
    called = _CALLS.search(text)
    functions = [
        f"local function {called_name}(KEYS, ARGV)\n{_with_called(called_name, folder)}end\n"
        for called_name in (called[1].split(", ") if called else ())
    ]
    return "".join([*functions, text])


class Scripts:
    """Runs the `*.lua` files of a folder by name; the caller's own folder by default.

    A script whose comment says `-- calls  start, join` can call these scripts, of its folder or of this one, as functions
    of KEYS and ARGV.  Each text is sent to the server once.  Tests give another `prelude` to bring another clock or other
    constants.
    """

    def __init__(self, client: Redis, folder: Traversable = _HERE, *, prelude: str = PRELUDE) -> None:
        self._client = client
        self._folder = folder
        self._prelude = prelude
        self._registered: dict[str, Script] = {}

    def run(
        self, name: str, keys: Sequence[Any] = (), args: Sequence[Any] = (), *, client: Redis | None = None
    ) -> Any:
        """`client`: another client of the same server.  Raises RedisError."""
        script = self._registered.get(name)
        if script is None:
            text = script_text(name, self._folder, prelude=self._prelude)
            script = self._registered[name] = self._client.register_script(text)
        call = partial(script, list(keys), list(args), client)
        try:
            return call()
        except NoScriptError:
            # The connection was lost after the script was loaded, and the next one led to another server.
            return call()
