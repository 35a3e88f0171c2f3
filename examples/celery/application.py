"""A Celery application of your own that asks Chorale by task name.  It needs Celery and redis, nothing of Chorale.

    celery -A application worker -Q shop

Chorale's processes have `CHORALE_ON_END_QUEUES=shop`, so that it may send tasks to the queue of this worker.
"""

import os
import sys

from celery import Celery, signature

redis_url = os.environ.get("REDIS_URL") or os.environ.get("CHORALE_REDIS_URL")
if redis_url is None:
    sys.exit('no Redis is named: eval "$(chorale env --celery)" sets CHORALE_REDIS_URL; or set REDIS_URL')
broker_url = os.environ.get("BROKER_URL") or os.environ.get("CHORALE_BROKER_URL") or redis_url

app = Celery("shop", broker=broker_url, backend=redis_url)
app.conf.task_routes = {"chorale.retrieve": {"queue": "chorale.retrieve"}}
app.conf.task_default_queue = "shop"


@app.task(name="shop.keep")
def keep(answer: dict) -> str:  # type: ignore[type-arg]
    """Gets the whole answer, whatever its status is."""
    hits = answer["questions"][0]["hits"]
    return f"{answer['request_id']} {answer['status']}: {hits[0]['title'] if hits else 'nothing'}"


@app.task(name="shop.ended")
def ended(request_id: str, status: str) -> None:
    """Gets only the id; the answer can be fetched for ten minutes."""
    answer = app.backend.get_result(request_id)
    print(request_id, status, len(answer["questions"]))


@app.task(name="shop.ask")
def ask(question: str) -> str:
    """A task that needs an answer does not wait for it: the next task of the chain gets the answer.

    Returns the id of that task.
    """
    return (signature("chorale.retrieve", args=[question]) | keep.s().set(queue="shop")).apply_async().id


if __name__ == "__main__":
    question = {"questions": ["Who pays for repairs?"], "namespace": "docs"}
    answer = app.send_task("chorale.retrieve", args=[question]).get(timeout=10)
    print(answer["status"], answer.get("degraded", []))
    for hit in answer["questions"][0]["hits"]:
        print(hit["rank"], hit["title"])
