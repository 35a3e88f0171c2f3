"""Ask as any other language does: a message of Celery's protocol 2 as JSON, pushed into Redis.

It needs a Redis client and nothing else.  The message lies in the list `chorale.retrieve`; the answer comes under
`celery-task-meta-<id of the task>`, as a published message and as a value that stays for ten minutes.  Before the answer the
value may have the status STARTED.
"""

import base64
import json
import os
import time
import uuid

import redis

client = redis.Redis.from_url(os.environ["CHORALE_REDIS_URL"])
task_id = str(uuid.uuid4())
request = {"questions": ["Who pays for repairs?"], "timeout_s": 2}

# Positional arguments, keyword arguments, and what Celery would do afterwards.
body = [[], {"request": request}, {}]
message = {
    "body": base64.b64encode(json.dumps(body).encode()).decode(),
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "headers": {"lang": "py", "task": "chorale.retrieve", "id": task_id, "root_id": task_id},
    "properties": {
        "correlation_id": task_id,
        "body_encoding": "base64",
        "delivery_tag": str(uuid.uuid4()),
        "delivery_info": {"exchange": "", "routing_key": "chorale.retrieve"},
    },
}

client.lpush("chorale.retrieve", json.dumps(message))
# To wait without polling, subscribe to the channel of the same name before the push.
until = time.monotonic() + 10
result = {"status": "PENDING"}
while result["status"] in ("PENDING", "STARTED") and time.monotonic() < until:
    time.sleep(0.02)
    result = json.loads(client.get(f"celery-task-meta-{task_id}") or '{"status": "PENDING"}')
answer = result["result"]
print(answer["status"], "in", answer["took_ms"], "ms")
for hit in answer["questions"][0]["hits"]:
    print(hit["rank"], hit["title"], hit["score"])
