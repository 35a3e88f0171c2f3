"""What is refused of a model: files that changed since they were first seen, pickled weights, code."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inference import model_files
from inference.backends import load_embedder, load_reranker
from inference.embedders import OnnxEmbedder, SentenceTransformersEmbedder
from inference.model_files import PACKAGED, ModelTrust, check_first_seen, model_folder
from inference.weight_files import weight_files
from models.errors import ModelMissing, NotConfigured
from tests.support.models.model_hub import COMMIT, NAME, ModelHub
from tests.support.models.tiny_bert import TEXTS, write_tiny_bert
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.new_process import printed
from tests.support.servers.services import need

LATER = "b" * 40


def started(hub: ModelHub, home: Path, *revisions: str | None) -> list[str]:
    """What a process that loads these revisions of the model says: a fingerprint, or why the revision is refused.

    The hub's library reads its address when it is imported, so each start is a process.
    """
    program = f"""
from pathlib import Path
from inference.embedders import OnnxEmbedder
from inference.model_files import ModelTrust
from models.errors import ModelMissing
for revision in {revisions!r}:
    try:
        trust = ModelTrust(revision, Path({str(home)!r}) / "model_hashes")
        print(OnnxEmbedder({NAME!r}, threads=1, trust=trust).fingerprint)
    except ModelMissing as error:
        print(error)
"""
    return printed(program, HF_HOME=str(home / "models"), HF_ENDPOINT=hub.origin)


@pytest.mark.slow
def test_a_model_that_changes_on_the_hub_is_refused_by_the_names_of_its_files(tmp_path: Path) -> None:
    first, later, home = tmp_path / "first", tmp_path / "later", tmp_path / "home"
    write_tiny_bert(first)
    write_tiny_bert(later, dtype=np.float16)
    marks = [OnnxEmbedder(str(folder), threads=1).fingerprint for folder in (first, later)]
    with ModelHub(first) as hub:
        assert started(hub, home, None) == marks[:1]
        hub.publish("main", LATER, later)
        refused, *declared, missing = started(hub, home, None, COMMIT, LATER, "v9")
    assert f"what this installation saw first (commit {COMMIT}): model.safetensors changed" in refused
    assert f"delete {home}/model_hashes/acme--tiny@main.json" in refused
    assert declared == marks, "a commit that somebody declares is another model"
    assert missing.startswith(f"no model {NAME} at v9:")


@pytest.fixture
def trust(tmp_path: Path) -> ModelTrust:
    return ModelTrust(hashes=tmp_path / "model_hashes")


def test_weights_may_come_later_and_no_file_that_was_seen_may_change_or_go(trust: ModelTrust) -> None:
    described = {"config.json": "1", "vocab.txt": "2"}
    check_first_seen(NAME, COMMIT, described, trust)
    check_first_seen(NAME, COMMIT, {**described, "model.safetensors": "3"}, trust)
    check_first_seen(NAME, LATER, described, trust)
    for files, changed in (
        ({**described, "model.safetensors": "4"}, "model.safetensors"),
        ({**described, "config.json": "4"}, "config.json"),
        ({"config.json": "1"}, "vocab.txt"),
    ):
        with pytest.raises(ModelMissing, match=rf"\(commit {COMMIT}\): {changed} changed"):
            check_first_seen(NAME, LATER, files, trust)
    check_first_seen("acme/other", COMMIT, {"config.json": "4"}, trust)


def test_a_file_that_a_later_commit_adds_is_refused(trust: ModelTrust) -> None:
    described = {"config.json": "1", "tokenizer.json": "2"}
    check_first_seen(NAME, COMMIT, {"config.json": "1"}, trust)  # of a download that broke off
    check_first_seen(NAME, COMMIT, described, trust)
    seen = {**described, "model.safetensors": "3"}
    check_first_seen(NAME, LATER, seen, trust)
    for added in ("1_Pooling/config.json", "onnx/model.onnx"):
        with pytest.raises(ModelMissing, match=rf"\(commit {COMMIT}\): {added} changed"):
            check_first_seen(NAME, LATER, {**seen, added: "4"}, trust)
    check_first_seen(NAME, COMMIT, {**seen, "onnx/model.onnx": "4"}, trust)


def test_processes_that_start_together_keep_the_hashes_of_every_file(trust: ModelTrust) -> None:
    weights = [f"{number}/model.safetensors" for number in range(24)]

    def load(file: str, content: str = "1") -> None:
        described = {f"{number}.json": "1" for number in range(24)}
        check_first_seen(NAME, COMMIT, {**described, file: content}, trust)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(load, weights))
    for file in weights:
        with pytest.raises(ModelMissing, match=f"{file} changed"):
            load(file, "2")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"commit": "a", "files": 1}'])
def test_unreadable_hashes_refuse_the_model_and_name_their_file(trust: ModelTrust, content: str) -> None:
    assert trust.hashes
    check_first_seen(NAME, COMMIT, {"config.json": "1"}, trust)
    (hash_file,) = trust.hashes.glob("*.json")
    hash_file.write_text(content)
    with pytest.raises(ModelMissing, match=f"{hash_file} cannot be read"):
        check_first_seen(NAME, COMMIT, {"config.json": "1"}, trust)


def test_the_default_model_from_the_hub_must_be_the_published_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = PACKAGED
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(model_files, "_packaged", lambda name: None)
    monkeypatch.setattr(model_files, "_from_hub", lambda *args: tmp_path)
    with pytest.raises(ModelMissing, match=rf"published files of {name} \(tokenizer.json\)"):
        model_folder(name)
    assert model_folder(name, (), ModelTrust(revision=COMMIT)) == tmp_path
    # A folder has no revision.
    with pytest.raises(NotConfigured, match="is a folder; only a model on the hub has a revision"):
        model_folder(str(tmp_path), (), ModelTrust(revision="v1"))


@pytest.mark.parametrize("file", ["pytorch_model.bin", "2_Router/query/weights.pkl"])
def test_pickled_weights_of_a_folder_are_refused_unless_they_are_allowed(tmp_path: Path, file: str) -> None:
    write_tiny_bert(tmp_path)
    pickled = tmp_path / file
    pickled.parent.mkdir(parents=True, exist_ok=True)
    pickled.write_bytes(b"")
    if pickled.parent == tmp_path:
        (tmp_path / "model.safetensors").unlink()
    why = rf"{pickled}: pickled weights can run code.*CHORALE_PICKLED_WEIGHTS"
    with pytest.raises(ModelMissing, match=why):
        _ = SentenceTransformersEmbedder(str(tmp_path), threads=1).fingerprint
    trust = ModelTrust(pickled=True)
    first, second = (SentenceTransformersEmbedder(str(tmp_path), threads=1, trust=trust) for _ in range(2))
    assert pickled in first.weight_files()
    before = first.fingerprint
    pickled.write_bytes(b"others")
    assert second.fingerprint != before


def test_a_pickled_reranker_is_refused_too(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelMissing, match=r"pytorch_model\.bin: pickled weights"):
        _ = load_reranker(str(tmp_path), backend="sentence_transformers", threads=1).fingerprint


def test_pickles_behind_links_are_found(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pytorch_model.bin").write_bytes(b"")
    (tmp_path / "model" / "2_Dense").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "model" / "again").symlink_to(tmp_path / "model")
    assert tmp_path / "model" / "2_Dense" / "pytorch_model.bin" in weight_files(tmp_path / "model")


def test_pickles_beside_safetensors_are_not_loaded_and_not_refused(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path)
    before = SentenceTransformersEmbedder(str(tmp_path), threads=1).fingerprint
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "openvino_model.bin").write_bytes(b"no pickle")
    assert SentenceTransformersEmbedder(str(tmp_path), threads=1).fingerprint == before


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How PyTorch's libraries are called; they are not needed for it."""
    received: dict[str, Any] = {}

    def load(folder: str, **options: Any) -> None:
        received.update(options, **options.pop("model_kwargs", {}))
        raise OSError("not installed here")

    cpu = SimpleNamespace(type="cpu", index=None)
    torch = {"float32": "fp32", "set_num_threads": lambda threads: None, "device": lambda name: cpu}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(**torch))
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=load))
    classifier = SimpleNamespace(from_pretrained=load)
    monkeypatch.setitem(
        sys.modules, "transformers", SimpleNamespace(AutoModelForSequenceClassification=classifier)
    )
    return received


WRITE_AND_LOAD: dict[str, tuple[Callable[[Path], Any], Callable[..., Any]]] = {
    "embedder": (write_tiny_bert, load_embedder),
    "reranker": (write_tiny_cross_encoder, load_reranker),
}


@pytest.mark.parametrize("what", WRITE_AND_LOAD)
@pytest.mark.parametrize("pickled", [False, True])
def test_the_libraries_are_called_so_that_they_trust_no_code_and_no_pickle(
    tmp_path: Path, options: dict[str, Any], what: str, pickled: bool
) -> None:
    settings: dict[str, Any] = {"backend": "sentence_transformers", "threads": 1, "device": "cpu"}
    write, load = WRITE_AND_LOAD[what]
    write(tmp_path)
    with pytest.raises(ModelMissing):
        load(str(tmp_path), trust=ModelTrust(pickled=pickled), **settings).warm()
    assert (options["trust_remote_code"], options["weights_only"]) == (False, True)
    assert options["use_safetensors"] is (None if pickled else True)


@dataclass
class RunsWhenLoaded:
    folder: Path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_model_that_asks_for_its_own_pickle_is_loaded_without_it(tmp_path: Path) -> None:
    need("sentence_transformers", "`make torch` installs it")
    ran, folder = tmp_path / "ran", tmp_path / "model"
    write_tiny_bert(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(RunsWhenLoaded(ran)))
    declared = json.loads((folder / "sentence_bert_config.json").read_text())
    declared["model_args"] = {"use_safetensors": False, "weights_only": False, "trust_remote_code": True}
    (folder / "sentence_bert_config.json").write_text(json.dumps(declared))
    embedder = SentenceTransformersEmbedder(str(folder), threads=1, device="cpu")
    expected = OnnxEmbedder(str(folder), threads=1).embed_passages(TEXTS)
    assert np.abs(embedder.embed_passages(TEXTS) - expected).max() < 1e-4
    assert not ran.exists()


DENSE = "sentence_transformers.models.Dense"


@pytest.mark.parametrize("backend", ["onnx", "sentence_transformers"])
@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ({"type": "acme.Runs", "path": "2_Runs"}, "names the class acme.Runs; code of a model"),
        ({"type": "subprocess.Popen", "path": ""}, "names the class subprocess.Popen"),
        ({"type": DENSE, "path": "../other"}, r"the folder \.\./other, which is not"),
        ({"type": DENSE, "path": "/etc"}, "the folder /etc, which is not"),
    ],
)
def test_a_model_that_brings_code_or_leads_out_of_its_folder_is_refused(
    tmp_path: Path, backend: str, module: dict[str, str], complaint: str
) -> None:
    write_tiny_bert(tmp_path)
    listed = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([*listed, {"idx": 3, "name": "3", **module}]))
    with pytest.raises(NotConfigured, match=complaint):
        load_embedder(str(tmp_path), backend=backend, threads=1).warm()
