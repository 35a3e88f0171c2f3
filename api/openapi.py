"""`python -m api.openapi` writes `api/openapi.json`, the description of the API that clients are generated from."""

from __future__ import annotations

import json
from pathlib import Path

from api.app import create_app
from config.settings import Settings

FILE = Path(__file__).with_name("openapi.json")


def openapi_text() -> str:
    """The description, which does not depend on settings."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(openapi_text(), encoding="utf-8")
