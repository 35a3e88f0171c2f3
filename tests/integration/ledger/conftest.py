"""The ledger with a clock in the test's hand, under the product's constants, and in `make test-all` under longer times, too."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from chorale_client.protocol_constants import PROTOCOL, ProtocolConstants
from redis import Redis

from tests.integration.ledger.real import Real
from tests.support.ledger.script import Script, accept, plan
from tests.support.ledger.stepped_ledger import SteppedLedger

LONGER = replace(
    PROTOCOL, **{name: value * 3 // 2 for name, value in asdict(PROTOCOL).items() if name.endswith("_ms")}
)


@pytest.fixture(
    params=[
        pytest.param(PROTOCOL, id=pytest.HIDDEN_PARAM),
        pytest.param(LONGER, id="longer times", marks=pytest.mark.slow),
    ]
)
def protocol(request: pytest.FixtureRequest) -> ProtocolConstants:
    constants: ProtocolConstants = request.param
    return constants


@pytest.fixture
def stepped(redis_client: Redis, protocol: ProtocolConstants) -> SteppedLedger:
    return SteppedLedger(redis_client, protocol)


@pytest.fixture
def real(redis_client: Redis) -> Real:
    return Real(redis_client)


@pytest.fixture
def script(stepped: SteppedLedger) -> Script:
    return Script(stepped)


@pytest.fixture
def planned(script: Script) -> Script:
    """One request with two branches, `bm25` and `vector`."""
    return script >> accept() >> plan("bm25", "vector") << "planned"
