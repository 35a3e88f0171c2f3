"""Ask a running Chorale with chorale-client alone.

`eval "$(chorale env)"` sets CHORALE_REDIS_URL, where the client finds what `chorale up` runs.
"""

from chorale_client import Chorale

chorale = Chorale()
for hit in chorale.retrieve("Who pays for repairs?", namespace="docs").hits:
    print(hit.rank, hit.title)
