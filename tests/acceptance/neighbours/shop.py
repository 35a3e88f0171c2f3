"""A Celery application of somebody else: its own tasks, queues, worker, beat and Flower, in the Redis that Chorale uses too.

Each task that ends adds its name to the file `RAN`.  `report` ends when the file `RELEASED` exists.
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.common import Broadcast

RAN, RELEASED = Path(os.environ["RAN"]), Path(os.environ["RELEASED"])

app = Celery("shop", broker=os.environ["CHORALE_REDIS_URL"], backend=os.environ["CHORALE_REDIS_URL"])
app.conf.task_default_queue = "shop"
app.conf.task_queues = [
    Queue("shop"),
    Queue("orders", Exchange("orders", type="topic"), routing_key="order.#"),
    Broadcast("news"),
]
app.conf.task_routes = {"chorale.retrieve": {"queue": "chorale.retrieve"}}
app.conf.broker_transport_options = {"visibility_timeout": 43_200}  # longer than each of its tasks
app.conf.beat_schedule = {"tick": {"task": "shop.tick", "schedule": 1.0}}


def ran(name: str) -> None:
    with RAN.open("a") as file:
        file.write(f"{name}\n")


def remind(name: str) -> None:
    """Sent with a countdown or an eta, which the worker waits for with the message in hand."""
    ran(name)


def report(name: str) -> None:
    """A long task, whose message is acknowledged at its end."""
    while not RELEASED.exists():
        time.sleep(0.1)
    ran(name)


def announce(name: str) -> None:
    """Sent to every worker by a fanout exchange."""
    ran(name)


def tick() -> None:
    ran("tick")


def keep(answer: dict[str, Any]) -> None:
    """Comes after a request to Chorale."""
    ran(f"keep {answer['status']}")


for task in (remind, announce, tick, keep):
    app.task(name=f"shop.{task.__name__}")(task)
app.task(name="shop.report", acks_late=True)(report)
