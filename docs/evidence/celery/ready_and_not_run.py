"""A callback that is made ready while another one runs waits until kombu's loop has waited for the network."""

import socket
import sys
import time

import kombu
from kombu.asynchronous import Hub

hub = Hub()
idle, _other_end = socket.socketpair()
hub.add_reader(idle, lambda: None)
ran_at: list[float] = []


def first() -> None:
    # As the transport of RabbitMQ does when it reads on, and Celery when it acknowledges what was read.
    hub.call_soon(second)


def second() -> None:
    ran_at.append(time.monotonic())


if __name__ == "__main__":
    sys.stdout.write(f"kombu {kombu.__version__}\n")
    begun = time.monotonic()
    hub.call_soon(first)
    while not ran_at:
        hub.run_once()
    sys.stdout.write("expected: the second callback runs at once\n")
    sys.stdout.write(f"saw:      it ran after {ran_at[0] - begun:.3f} s\n")
