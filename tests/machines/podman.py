"""podman and podman-compose with a store and a network of their own, so that the machine's containers and network stay as they are.

The machine may be a container itself, without systemd: then nothing but this holds the namespaces, and nothing runs the health checks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.support.servers.services import missing
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PACKAGES = "podman crun netavark aardvark-dns iptables catatonit mmdebstrap"
COMPOSE = "podman-compose==1.6.0"

# podman remembers networks and mounts below these folders, and another one on this machine has its own there.
_HOLD = """
umount /sys/fs/cgroup/unified 2>/dev/null  # crun refuses a version 2 beside version 1
for folder in netns containers libpod crun; do mkdir -p /run/$folder && mount -t tmpfs tmpfs /run/$folder || exit 1; done
ip link set lo up
echo ready
exec sleep infinity
"""


class Podman:
    """A context manager; `folder` keeps the images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._holder: subprocess.Popen[str] | None = None
        self._tools = folder / "tools"
        self.dotenv: dict[str, str] = {}
        """Variables for docker-compose.yml, which win over .env."""

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or any(
            shutil.which(name) is None for name in ("podman", "crun", "mmdebstrap", "ip")
        ):
            missing(f"without root's rights or without podman: `apt install {PACKAGES}` brings it")
        self.folder.mkdir(mode=0o700, exist_ok=True)
        assert self.folder.stat().st_uid == os.getuid(), f"{self.folder} belongs to another user"
        # A process in a container may not raise a limit, and podman would ask for higher limits.
        self._configure(
            "containers.conf",
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "crun"\n'
            f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{self.folder}/networks"\n',
        )
        self._configure(
            "storage.conf",
            f'[storage]\ndriver = "overlay"\nrunroot = "{self.folder}/run"\ngraphroot = "{self.folder}/store"\n',
        )
        hold = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", _HOLD]
        self._holder = subprocess.Popen(hold, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._holder.stdout is not None
        with self._holder.stdout as said:
            if (line := said.readline()) != "ready\n":
                missing(f"without the right to make namespaces: {line}")
        self.inside("podman", "rm", "--all", "--force", "--time=0", check=False)  # of a run that was killed
        return self

    def __exit__(self, *_: object) -> None:
        if self._holder is not None:
            self.inside("podman", "rm", "--all", "--force", "--time=0", "--volumes", check=False)
            self._holder.kill()
            self._holder.wait()

    def __call__(
        self, *words: str, text: str | None = None, network: bool = False, check: bool = True
    ) -> str:
        """podman's answer; `network`: in the machine's own network."""
        return self.inside("podman", *words, text=text, network=network, check=check)

    def inside(
        self, *command: str, text: str | None = None, network: bool = False, check: bool = True
    ) -> str:
        done = subprocess.run(
            self.entered(*command, network=network),
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self._environment(),
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def entered(self, *command: str, network: bool = False) -> list[str]:
        """The command, in the namespaces of the containers' bridge."""
        assert self._holder is not None
        kinds = ["--mount"] if network else ["--mount", "--net"]
        return ["nsenter", f"--target={self._holder.pid}", *kinds, f"--wd={ROOT}", "--", *command]

    def compose(self, *words: str, profile: str) -> str:
        if not self._tools.exists():
            call = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "install",
                "--quiet",
                f"--target={self._tools}",
                COMPOSE,
            ]
            subprocess.run(call, check=True)
        call = [
            "env",
            f"PYTHONPATH={self._tools}",
            sys.executable,
            "-m",
            "podman_compose",
            "--profile",
            profile,
        ]
        return self.inside(*call, *words)

    def docker_compose(self, compose: str, *words: str, profile: str) -> tuple[int, str]:
        """Run `compose`, which is Docker's own program, on podman; returns its exit code and its errors.

        Podman runs no health check by itself, so this runs those of all containers until the program ends.
        """
        socket = self.folder / "run" / "docker.sock"
        environment = {**self._environment(), "DOCKER_HOST": f"unix://{socket}"}
        serve = self.entered("podman", "system", "service", "--time=0", environment["DOCKER_HOST"])
        call = self.entered(compose, "--progress=quiet", "--profile", profile, *words)
        socket.unlink(missing_ok=True)  # of a run that was killed
        service = subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL)
        try:
            until(socket.exists)
            with subprocess.Popen(
                call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as program:
                while program.poll() is None:
                    for name in self("ps", "--format={{.Names}}").split():
                        self.is_healthy(name)
                    time.sleep(1)
                assert program.stdout is not None
                return program.returncode, program.stdout.read()
        finally:
            service.terminate()
            service.wait()

    def is_healthy(self, container: str) -> bool:
        """Runs the container's health check, which systemd would do now and then."""
        call = self.entered("podman", "healthcheck", "run", container)
        return subprocess.run(call, capture_output=True, env=self._environment(), check=False).returncode == 0

    def _environment(self) -> dict[str, str]:
        files = {
            "CONTAINERS_CONF": f"{self.folder}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{self.folder}/storage.conf",
        }
        return {**os.environ, **self.dotenv, **files}

    def _configure(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
