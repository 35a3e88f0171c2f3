"""An application that forks while another of its threads imports Celery: the child sends too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.pipelines.pipeline import PYTHONPATH

IMPORTING = """
import faulthandler, os, sys, threading, time
from chorale_client import Chorale

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            importing.set()
            time.sleep(0.5)

importing = threading.Event()
sys.meta_path.insert(0, Slow())
chorale = Chorale("redis://127.0.0.1:1/0")
thread = threading.Thread(target=lambda: chorale.{part})
thread.start()
importing.wait(20)
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(20, exit=True)
    chorale.{part}
    os._exit(0)
_, status = os.waitpid(child, 0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    ("part", "module"),
    [
        ("publisher", "celery"),
        ("publisher", "celery.app.amqp"),
        ("publisher", "kombu.transport.redis"),
        ("jobs", "chorale_client.jobs.handles"),
    ],
)
def test_a_child_that_is_forked_during_the_first_import_has_a_client_that_works(
    part: str, module: str
) -> None:
    program = IMPORTING.format(part=part, module=module)
    environment = {"PYTHONPATH": PYTHONPATH, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
