"""Ask a running Chorale with chorale-client alone.

`chorale up` prints the address for CHORALE_REDIS_URL.
"""

import os

from chorale_client import Chorale

chorale = Chorale(os.environ["CHORALE_REDIS_URL"])
for hit in chorale.retrieve("Who pays for repairs?").hits:
    print(hit.rank, hit.title)
