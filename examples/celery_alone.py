"""Ask by task name, from a program that has Celery and nothing of Chorale.

The answer is the task's result, and the request has the task's id.
"""

import os

from celery import Celery

REDIS_URL = os.environ["CHORALE_REDIS_URL"]  # eval "$(chorale env)"
app = Celery("web", broker=REDIS_URL, backend=REDIS_URL)

request = {"namespace": "docs", "questions": ["Who pays for repairs?"], "timeout_s": 2}
result = app.send_task("chorale.retrieve", kwargs={"request": request}, queue="chorale.retrieve")
answer = result.get(timeout=10)
print(answer["status"], "in", answer["took_ms"], "ms")
for hit in answer["questions"][0]["hits"]:
    print(hit["rank"], hit["title"], hit["score"])
