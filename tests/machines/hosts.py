"""Hosts as network namespaces on a bridge, which has a namespace of its own, so that the machine's network stays as it is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests.support.servers.services import missing

ROOT = Path(__file__).parents[2]
SWITCH = "switch"


class Hosts:
    """A context manager; each host has an address, and its loopback is its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, start=1)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
            missing("without root's rights or without `ip` and `iptables`: `apt install iproute2 iptables`")
        try:
            self._ip("netns", "add", self._namespace(SWITCH))
        except subprocess.CalledProcessError as error:
            missing(f"without the right to make network namespaces: {error.stderr}")
        try:
            self._on(SWITCH, "link", "add", "bridge", "type", "bridge")
            self._on(SWITCH, "link", "set", "bridge", "up")
            for name, address in self.addresses.items():
                self._ip("netns", "add", self._namespace(name))
                other_end = ("type", "veth", "peer", "name", f"to-{name}", "netns", self._namespace(SWITCH))
                self._on(name, "link", "add", "eth0", *other_end)
                self._on(SWITCH, "link", "set", f"to-{name}", "master", "bridge", "up")
                self._on(name, "addr", "add", f"{address}/24", "dev", "eth0")
                for link in ("eth0", "lo"):
                    self._on(name, "link", "set", link, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        for name in (*self.addresses, SWITCH):
            subprocess.run(["ip", "netns", "del", self._namespace(name)], capture_output=True, check=False)

    def enter(self, host: str) -> list[str]:
        """The words before a command that runs on this host."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def start(
        self, host: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """A process on this host, which ends with the hosts at the latest."""
        with log.open("ab") as file:
            process = subprocess.Popen(
                [*self.enter(host), *command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=ROOT,
                env={**os.environ, **environment},
            )
        self._processes.append(process)
        return process

    def kill(self, host: str) -> None:
        """Kills every process on this host."""
        for pid in self._run("ip", "netns", "pids", self._namespace(host)).split():
            os.kill(int(pid), signal.SIGKILL)

    @contextmanager
    def cut_off(self, host: str) -> Iterator[None]:
        """Cuts the host off from the bridge."""
        self._on(SWITCH, "link", "set", f"to-{host}", "down")
        try:
            yield
        finally:
            self._on(SWITCH, "link", "set", f"to-{host}", "up")

    @contextmanager
    def lossy(self, host: str, share: float) -> Iterator[None]:
        """Loses this share of the packets that the host sends."""
        random = ("-m", "statistic", "--mode", "random", "--probability", str(share))
        with self._dropping(host, *random):
            yield

    @contextmanager
    def silent(self, host: str, to: str) -> Iterator[None]:
        """Loses every packet that the host sends to this one."""
        with self._dropping(host, "--destination", self.addresses[to]):
            yield

    @contextmanager
    def _dropping(self, host: str, *packets: str) -> Iterator[None]:
        rule = ["OUTPUT", "-o", "eth0", *packets, "-j", "DROP"]
        self._run(*self.enter(host), "iptables", "--append", *rule)
        try:
            yield
        finally:
            self._run(*self.enter(host), "iptables", "--delete", *rule)

    def _namespace(self, host: str) -> str:
        return f"chorale-{os.getpid()}-{host}"

    def _on(self, host: str, *words: str) -> None:
        self._ip("-netns", self._namespace(host), *words)

    def _ip(self, *words: str) -> None:
        self._run("ip", *words)

    def _run(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
