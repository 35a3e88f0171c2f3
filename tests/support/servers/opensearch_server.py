"""A server of OpenSearch from Maven's repository, which a test may pause and kill, and the stores on it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from models.declarations.engines import OpenSearchEndpoint
from search.engines.opensearch.store import OpenSearchStore
from tests.support.servers.own_server import QUICK_JAVA, OwnServer, free_ports
from tests.support.servers.services import missing
from tests.support.stores.known_index import KnownIndexes

OLDEST, NEWEST = "2.19.6", "3.6.0"
"""The versions of the servers."""

_KNN = {OLDEST: "2.19.1.0", NEWEST: "3.6.0.0"}
"""The version of the k-NN plugin for each."""
_JAVA = {OLDEST: range(11, 24), NEWEST: range(21, 100)}
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>opensearch</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><type>zip</type></dependency>"
_PARTS = (
    "bin/",
    "lib/",
    "config/",
    "agent/",
    "modules/transport-netty4/",
    "modules/lang-painless/",
    "modules/transport-grpc/",
    "modules/analysis-common/",
)
"""The modules that a server needs; the others would double the time of its start."""
_FETCH_LIMIT_S = 300


class OpenSearchServer(OwnServer):
    """Entering the context waits until it is ready.  With `vectors` it has the k-NN plugin."""

    start_limit_s = 300.0

    def __init__(self, version: str = OLDEST, *, vectors: bool = True) -> None:
        self._java = _java(_JAVA[version])
        if shutil.which("mvn") is None:
            missing("without mvn: OpenSearch is started from Maven's repository")
        super().__init__("opensearch")
        self.version, self._vectors = version, vectors
        self.port, self._internal_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.ready = f"{self.url}/_cluster/health"

    def launch(self) -> None:
        home = self.folder / f"opensearch-{self.version}"
        if not home.exists():
            self._unpack(home)
        agent = [f"-javaagent:{part}" for part in home.glob("agent/opensearch-agent.jar")]
        settings = {
            "http.port": self.port,
            "transport.port": self._internal_port,
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        self._run(
            [
                *(str(self._java), "-Xms512m", "-Xmx512m", *QUICK_JAVA, *agent),
                *(f"-Dopensearch.path.home={home}", f"-Dopensearch.path.conf={home}/config"),
                *("-cp", f"{home}/lib/*", "org.opensearch.bootstrap.OpenSearch"),
                *(f"-E{name}={value}" for name, value in settings.items()),
            ],
            cwd=home,
            # PostgreSQL refuses to run as root.
            user="nobody" if os.geteuid() == 0 else None,
        )
        self.wait_ready()

    def _unpack(self, home: Path) -> None:
        fetched = _fetched(self.version)
        with zipfile.ZipFile(fetched / f"opensearch-{self.version}.zip") as packed:
            parts = [name for name in packed.namelist() if name.partition("/")[2].startswith(_PARTS)]
            packed.extractall(self.folder, parts)
        plugins = home / "plugins"
        plugins.mkdir()
        if self._vectors:
            with zipfile.ZipFile(fetched / f"opensearch-knn-{_KNN[self.version]}.zip") as packed:
                packed.extractall(plugins / "opensearch-knn")
        if self._vectors and self.version == OLDEST:
            # The plugin is of an older patch release, and extends scripts, which we do not use.
            descriptor = plugins / "opensearch-knn" / "plugin-descriptor.properties"
            text = re.sub(
                "opensearch.version=.*", f"opensearch.version={self.version}", descriptor.read_text()
            )
            descriptor.write_text(re.sub("extended.plugins=.*", "extended.plugins=", text))
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            for path in (home, *home.rglob("*")):
                shutil.chown(path, "nobody")

    @contextmanager
    def opened(
        self, prefix: str | None = None, *, password: str | None = None, **options: Any
    ) -> Iterator[OpenSearchStore]:
        """A store with the indexes of `KnownIndexes`, by default with a prefix of its own."""
        options = {"url": self.url, "prefix": prefix or f"t{secrets.token_hex(6)}", **options}
        store = OpenSearchStore(OpenSearchEndpoint(**options), password=password)
        store.reader = KnownIndexes()
        try:
            yield store
        finally:
            store.close()


@cache
def _fetched(version: str) -> Path:
    """The folder of this process with the archives of the server and of its plugin."""
    folder = Path(tempfile.mkdtemp(prefix="chorale-opensearch-"))
    wanted = (
        ("org.opensearch.distribution.integ-test-zip", "opensearch", version),
        ("org.opensearch.plugin", "opensearch-knn", _KNN[version]),
    )
    (folder / "pom.xml").write_text(_POM.format("".join(_DEPENDENCY.format(*one) for one in wanted)))
    goal = ["dependency:copy-dependencies", "-DexcludeTransitive=true", f"-DoutputDirectory={folder}"]
    fetched = subprocess.run(
        ["mvn", "--batch-mode", "--quiet", *goal],
        cwd=folder,
        env={**os.environ, "MAVEN_OPTS": " ".join(QUICK_JAVA)},
        capture_output=True,
        text=True,
        timeout=_FETCH_LIMIT_S,
        check=False,
    )
    if fetched.returncode:
        missing(f"without OpenSearch: Maven does not fetch it: {fetched.stdout[-300:]}")
    return folder


def _java(versions: range) -> Path:
    """A Java of one of these versions."""
    homes = [os.environ.get("JAVA_HOME"), shutil.which("java"), *Path("/usr/lib/jvm").glob("*")]
    for home in homes:
        place = Path(home or "/nowhere").resolve()
        place = place.parents[1] if place.is_file() else place
        if (place / "bin" / "java").is_file() and (place / "release").is_file():
            said = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (place / "release").read_text())
            if said and int(said[1]) in versions:
                return place / "bin" / "java"
    missing(f"without Java {versions[0]} or newer: OpenSearch needs it")
    raise AssertionError("pytest.skip and pytest.fail do not return")
