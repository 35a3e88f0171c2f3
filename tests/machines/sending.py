"""A sender on a host of its own: `python -m tests.machines.sending REPLICAS` sends requests until its input ends, then looks for all of
them.

It prints the ids, and then as JSON how many requests were `sent`, how many the client was `unsure` of, and how many of those that were sent are `lost`.
Its address is CHORALE_REDIS_URL.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from chorale_client import Chorale, NotEnded, ServiceUnavailable, UnknownRequest

from tests.machines.asking import NAMESPACE

TIMEOUT_S = 60.0
PAUSE_S = 0.1


def is_lost(client: Chorale, request_id: str) -> bool:
    while True:
        try:
            client.answer(request_id)
        except UnknownRequest:
            return True
        except NotEnded:
            return False
        except ServiceUnavailable:
            time.sleep(PAUSE_S)  # there is no primary yet
        else:
            return False


def main(replicas: int) -> None:
    client, stopping = Chorale(replicas=replicas), threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=listen, daemon=True).start()
    sent: list[str] = []
    unsure = 0
    while not stopping.wait(PAUSE_S):
        question = f"Who pays for repair {len(sent)}?"
        try:
            sent.append(client.send(question, namespace=NAMESPACE, timeout_s=TIMEOUT_S))
            print(sent[-1], flush=True)
        except ServiceUnavailable:
            unsure += 1
    lost = sum(is_lost(client, request_id) for request_id in sent)
    print(json.dumps({"sent": len(sent), "unsure": unsure, "lost": lost}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
