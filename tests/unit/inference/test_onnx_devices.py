"""Which device ONNX Runtime gets; no machine of the tests has CUDA, so the list of its providers is a stub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from inference.backends import load_embedder, load_reranker
from models.errors import NotConfigured
from tests.support.models.tiny_bert import write_tiny_bert
from tests.support.models.tiny_cross_encoder import PAIRS, write_tiny_cross_encoder

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The first provider of each session, which computes on the CPU all the same."""
    firsts: list[Any] = []

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, model: Any, options: Any, *, providers: list[Any]) -> None:
            firsts.append(providers[0])
            super().__init__(model, options, providers=[CPU])

        def get_providers(self) -> list[str]:
            return [CPU] if firsts[-1] == CPU else [CUDA, CPU]

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    return firsts


def load(folder: Path, what: str, **settings: Any) -> Any:
    if what == "embedder":
        write_tiny_bert(folder)
        return load_embedder(str(folder), backend="onnx", threads=1, **settings)
    return load_reranker(str(write_tiny_cross_encoder(folder)), backend="onnx", threads=1, **settings)


@pytest.mark.parametrize("what", ["embedder", "reranker"])
@pytest.mark.parametrize(
    ("device", "first"),
    [
        (None, (CUDA, {"device_id": "0", "use_tf32": "0"})),
        ("cuda:1", (CUDA, {"device_id": "1", "use_tf32": "0"})),
        ("cpu", CPU),
    ],
)
def test_a_model_runs_on_cuda_if_onnx_runtime_has_it_and_the_log_says_so(
    with_cuda: list[Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    what: str,
    device: str | None,
    first: Any,
) -> None:
    caplog.set_level("INFO", "chorale.models")
    load(tmp_path, what, device=device).warm()
    assert with_cuda == [first]
    used = CPU if first == CPU else CUDA
    assert caplog.messages == [f"{tmp_path / 'model.safetensors'} runs on {used}"]


def test_int8_stays_on_the_cpu(with_cuda: list[Any], tmp_path: Path) -> None:
    load(tmp_path, "embedder", precision="int8").warm()
    assert with_cuda == [CPU]


def test_a_reranker_in_int8_computes_in_fp32_on_cuda(with_cuda: list[Any], tmp_path: Path) -> None:
    on_cuda = load(tmp_path, "reranker", precision="int8")
    on_cpu = load(tmp_path, "reranker", precision="fp32", device="cpu")
    for reranker in (on_cuda, on_cpu):
        reranker.warm()
    expected, scores = (reranker.score(PAIRS, limit_s=20).logits for reranker in (on_cpu, on_cuda))
    assert scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("what", ["embedder", "reranker"])
def test_without_cuda_a_model_runs_on_the_cpu_and_the_device_cuda_is_refused(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CPU])
    caplog.set_level("INFO", "chorale.models")
    load(tmp_path, what).warm()
    assert caplog.messages == [f"{tmp_path / 'model.safetensors'} runs on {CPU}"]
    with pytest.raises(NotConfigured, match="device 'cuda': ONNX Runtime runs on CPUExecutionProvider here"):
        load(tmp_path, what, device="cuda").warm()
