"""Ask a running Chorale: `pip install chorale-client`, nothing else of it.

CHORALE_REDIS_URL is the address that `chorale up` prints.
"""

import os

from chorale_client import Chorale

chorale = Chorale(os.environ["CHORALE_REDIS_URL"])
for hit in chorale.retrieve("Who pays for repairs?").hits:
    print(hit.rank, hit.title)
