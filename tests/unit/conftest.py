"""How many examples hypothesis tries for each property: 25, the same each time; with CHORALE_TEST_EXAMPLES=500 so many,
other ones each time."""

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("CHORALE_TEST_EXAMPLES", "0"))

# A property has no time limit of its own: a busy machine is no failure.
settings.register_profile("chorale", deadline=None, max_examples=EXAMPLES or 25, derandomize=not EXAMPLES)
settings.load_profile("chorale")
