"""Documents that another program sends to `chorale.index` are found by the next question."""

from __future__ import annotations

import time

from tests.support.pipelines.pipeline import RunningPipeline


def generation(pipeline: RunningPipeline, namespace: str) -> int:
    return pipeline.resources.generations.in_redis(namespace) or 0


def test_documents_sent_by_task_name_are_found(pipeline: RunningPipeline) -> None:
    documents = [
        {
            "id": "wiki/tea",
            "title": "Tea",
            "text": "Green tea is brewed at eighty degrees.",
            "metadata": {"kind": "wiki"},
        },
        {"id": "wiki/nothing"},
        "not an object",
    ]
    pipeline.app.send_task(
        "chorale.index", kwargs={"namespace": "sent", "documents": documents}, queue="chorale.index"
    )
    until = time.monotonic() + 30
    while not generation(pipeline, "sent"):
        assert time.monotonic() < until, "nothing was indexed"
        time.sleep(0.05)

    answer = pipeline.client().retrieve("how hot is the water for green tea?", namespace="sent")

    assert [hit.document_id for hit in answer.hits] == ["wiki/tea"]
    assert answer.hits[0].metadata == {"kind": "wiki"}


def test_a_message_that_is_wrong_ends_no_worker(pipeline: RunningPipeline) -> None:
    for wrong in ({"namespace": "Not A Name", "documents": []}, {"namespace": "sent", "documents": 7}, {}):
        pipeline.app.send_task("chorale.index", kwargs=wrong, queue="chorale.index")
    test_documents_sent_by_task_name_are_found(pipeline)
    assert pipeline.processes["chorale.index"].poll() is None
