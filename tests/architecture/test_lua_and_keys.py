"""Lua stands in `*.lua` files, and every Redis key is written out once, in `chorale_client.keys`."""

from __future__ import annotations

import re
from pathlib import Path

from chorale_client import keys

from tests.architecture.product import PRODUCT, ROOT, SCRIPTS, texts

KEYS = {value for name, value in vars(keys).items() if name.isupper()}


def code(script: Path) -> str:
    """Returns a script without its comments."""
    return re.sub(r"--.*", "", script.read_text(encoding="utf-8"))


def test_no_python_file_holds_lua() -> None:
    assert [str(file) for file in PRODUCT if "redis.call" in file.read_text("utf-8")] == []


def test_every_script_names_its_keys_and_arguments() -> None:
    assert SCRIPTS
    for script in SCRIPTS:
        lines = script.read_text(encoding="utf-8").splitlines()
        header = "\n".join(line for line in lines if line.startswith("--"))
        assert [name for name in ("KEYS", "ARGV") if name in code(script) and name not in header] == [], (
            script
        )


def test_no_key_is_written_out_twice() -> None:
    written = [
        f"{file.relative_to(ROOT)}: {text!r}"
        for file in PRODUCT
        if file.name != "keys.py" and any(key in file.read_text(encoding="utf-8") for key in KEYS)
        for text in texts(file)
        if text in KEYS or any(text.startswith(key) for key in KEYS - {keys.PREFIX})
    ]
    written += [str(script) for script in SCRIPTS if keys.PREFIX in code(script)]
    assert written == []
