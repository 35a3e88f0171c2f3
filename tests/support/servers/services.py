"""Servers and packages that tests need and that may be missing, such as PyTorch.

A laptop without them skips the test and says why; in CI (`CI=true`) the same absence is a failure.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

SERVICES = {
    "redis": "CHORALE_TEST_REDIS_URL",
    "rabbitmq": "CHORALE_TEST_AMQP_URL",
    "postgresql": "CHORALE_TEST_POSTGRESQL_URL",
    "elasticsearch": "CHORALE_TEST_ELASTICSEARCH_URL",
    "weaviate": "CHORALE_TEST_WEAVIATE_URL",
    "ferretdb": "CHORALE_TEST_FERRETDB",
    "compose": "CHORALE_TEST_COMPOSE",
}
"""The environment variable with the address of each server, or with its program."""


def need(name: str, why: str) -> str:
    """The address of the server `name` (a key of SERVICES), or the name of the package if it is installed.

    `why` completes the sentence "without NAME: ...", and says what to run: "`make torch` installs it".
    """
    if name in SERVICES:
        if address := os.environ.get(SERVICES[name]):
            return address
    elif importlib.util.find_spec(name) is not None:
        return name
    missing(f"without {name}: {why}")
    raise AssertionError("pytest.skip and pytest.fail do not return")


def offered(name: str, why: str) -> str:
    """Like `need`, for a server that CI may leave out: in CI its absence is a failure only where the variable
    CHORALE_TEST_EXPECTED names it ("postgresql weaviate")."""
    if SERVICES[name] in os.environ or name in os.environ.get("CHORALE_TEST_EXPECTED", "").split():
        return need(name, why)
    pytest.skip(f"without {name}: {why}")


def missing(reason: str) -> None:
    """Ends the test: skips it on a laptop, fails it in CI."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"{reason} (CI must run this test)", pytrace=False)
    pytest.skip(reason)
