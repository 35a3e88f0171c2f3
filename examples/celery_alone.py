"""Ask by task name, from a program that has Celery and nothing of Chorale.

The answer is the result of the task whose id is the request's id.
"""

import os
import uuid

from celery import Celery
from celery.result import AsyncResult

REDIS_URL = os.environ["CHORALE_REDIS_URL"]  # redis://...; Celery writes unix sockets as redis+socket://
app = Celery("web", broker=REDIS_URL, backend=REDIS_URL)

request = {
    "request_id": str(uuid.uuid4()),
    "namespace": "default",
    "questions": ["Who pays for repairs?"],
    "timeout_s": 2,
}
app.send_task(
    "chorale.retrieve",
    kwargs={"request": request},
    queue="chorale.retrieve",
    ignore_result=True,  # this task has no result; the answer comes under the request's id
)

answer = AsyncResult(request["request_id"], app=app).get(timeout=10)
print(answer["status"], "in", answer["took_ms"], "ms")
for hit in answer["questions"][0]["hits"]:
    print(hit["rank"], hit["title"], hit["score"])
