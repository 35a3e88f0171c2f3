"""`python -m tests.integration.bench.on_one_installation CALL...`: calls of `python -m tests.bench`, which share one installation."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

from cli.local.ports import Address
from cli.local.redis_server import free_port
from tests.bench import commands
from tests.bench.installation import measured_installation

DOCUMENTS = 30
OTHERS = {"retrieve": ("retrieve",), "bulk-1": ("bulk",)}

if __name__ == "__main__":
    place = ("127.0.0.1", free_port())
    with measured_installation(DOCUMENTS, others=OTHERS, http=Address(*place), plain=True) as measured:
        vars(commands)["measured_installation"] = lambda *_, **__: nullcontext(measured)
        vars(commands)["create_server"] = lambda _: nullcontext(SimpleNamespace(getsockname=lambda: place))
        for call in sys.argv[1:]:
            commands.bench([*call.split(), "--json"], standalone_mode=False)
