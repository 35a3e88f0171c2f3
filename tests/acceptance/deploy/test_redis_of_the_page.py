"""The commands of docs/operate.md that start Redis, as they are printed."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.support.servers.certificates import Certificate
from tests.support.servers.redis_acl import needs_tls
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
PASSWORD = "correct-horse-battery"


def own_address() -> str:
    """An address of this machine that is not loopback.  Redis sees a client of it as one on another host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.250", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_redis_as_the_page_starts_it_answers_another_host(tmp_path: Path) -> None:
    needs_tls()
    (block,) = re.findall(r"```sh\n(REDIS_WORKER_PASSWORD=.*?)```", PAGE, re.DOTALL)
    Certificate.make(tmp_path)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "server.crt").read_bytes())
    port = free_port()
    script = (
        block.replace("PASSWORD=…", f"PASSWORD={PASSWORD}")
        .replace("PYTHONPATH=. .venv/bin/python", f"PYTHONPATH={ROOT} {sys.executable}")
        .replace("6379", str(port))
        .replace("redis-server", "exec redis-server")
    )
    with subprocess.Popen(["bash", "-ec", script], cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        try:
            url = f"rediss://caller:{PASSWORD}@{own_address()}:{port}/0?ssl_cert_reqs=none"
            with Redis.from_url(url, retry=None) as caller:

                def answers() -> bool:
                    try:
                        return bool(caller.ping())
                    except RedisError:
                        return False

                until(answers, 60)
        finally:
            server.terminate()
