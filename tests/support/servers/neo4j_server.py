"""A Neo4j of its own, from Maven's repository, for tests that pause it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

from tests.support.servers.own_server import QUICK_JAVA, OwnServer, free_ports

PASSWORD = "sesame-0815"
_VERSION = "5.26.0"
_PROGRAM = Path(__file__).with_name("Neo4jServer.java")
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>neo4j</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.neo4j</groupId><artifactId>neo4j</artifactId><version>{_VERSION}</version>
</dependency></dependencies></project>
"""
_FETCH_LIMIT_S = 300
_SET_PASSWORD = f"ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO '{PASSWORD}'"


class Neo4jServer(OwnServer):
    start_limit_s = 300.0

    def __init__(self) -> None:
        for program in ("java", "javac", "mvn"):
            if shutil.which(program) is None:
                pytest.skip(f"without {program}: Neo4j is started from Maven's repository")
        super().__init__("neo4j")
        (self.port,) = free_ports(1)
        self.url = f"bolt://127.0.0.1:{self.port}"

    def launch(self) -> None:
        command = ["java", "-Xmx400m", *QUICK_JAVA, "-cp", self._classes(), str(_PROGRAM)]
        self._run([*command, str(self.folder / "data"), str(self.port)], cwd=self.folder)
        self.wait_ready()

    def _classes(self) -> str:
        """The class path, whose files Maven fetches."""
        (self.folder / "pom.xml").write_text(_POM)
        listed = self.folder / "classes"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={listed}", "-DincludeScope=runtime"]
        fetched = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", *goal],
            cwd=self.folder,
            env={**os.environ, "MAVEN_OPTS": " ".join(QUICK_JAVA)},
            capture_output=True,
            text=True,
            timeout=_FETCH_LIMIT_S,
            check=False,
        )
        if fetched.returncode:
            pytest.skip(f"without Neo4j: Maven does not fetch it: {fetched.stdout[-300:]}")
        return listed.read_text()

    def wait_ready(self) -> None:
        """Waits for Bolt, and gives the user neo4j its password."""
        ends_s = time.monotonic() + self.start_limit_s
        while True:
            try:
                with self.driver("neo4j") as driver:
                    driver.execute_query(_SET_PASSWORD, database_="system")
                return
            except (DriverError, Neo4jError):
                assert self._process is not None
                assert self._process.poll() is None, f"the server ended while it started: {self._said()}"
                assert time.monotonic() < ends_s, f"the server did not start: {self._said()}"
                time.sleep(0.2)

    def driver(self, password: str = PASSWORD) -> Any:
        return GraphDatabase.driver(self.url, auth=("neo4j", password), max_transaction_retry_time=0)
