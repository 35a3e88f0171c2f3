"""How many examples hypothesis tries for each property: 25, the same each time; with CHORALE_TEST_EXAMPLES=500 so many,
other ones each time."""

import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.pipelines.pipeline_files import Declares, declared

EXAMPLES = int(os.environ.get("CHORALE_TEST_EXAMPLES", "0"))

# A property has no time limit of its own: a busy machine is no failure.
settings.register_profile("chorale", deadline=None, max_examples=EXAMPLES or 25, derandomize=not EXAMPLES)
settings.load_profile("chorale")


@pytest.fixture
def declares(tmp_path: Path) -> Declares:
    """Loads a text as a pipeline file."""
    return partial(declared, tmp_path)
