"""Documents that another program sends to `chorale.index` are found by the next question."""

from __future__ import annotations

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

DOCUMENTS = [
    {
        "id": "wiki/tea",
        "title": "Tea",
        "text": "Green tea is brewed at eighty degrees.",
        "metadata": {"kind": "wiki"},
    },
    {"id": "wiki/nothing"},
    "not an object",
]


def test_documents_sent_by_task_name_are_found_although_wrong_messages_came_before(
    pipeline: RunningPipeline,
) -> None:
    messages = [
        {"namespace": "Not A Name", "documents": []},
        {"namespace": "sent", "documents": 7},
        {},
        {"namespace": "sent", "documents": DOCUMENTS},
    ]
    for message in messages:
        pipeline.app.send_task("chorale.index", kwargs=message, queue="chorale.index")
    until(lambda: pipeline.resources.generations.in_redis("sent"))

    answer = pipeline.client().retrieve("how hot is the water for green tea?", namespace="sent", timeout_s=20)

    assert [hit.document_id for hit in answer.hits] == ["wiki/tea"]
    assert answer.hits[0].metadata == {"kind": "wiki"}
    assert pipeline.processes["worker"].poll() is None
