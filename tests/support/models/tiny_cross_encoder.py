"""A CrossEncoder folder with a tiny BERT of random weights, in any shape that a test wants."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from tests.support.models.tiny_bert import WIDTH, write_tiny_bert

PAIRS = (
    ("a question", "words of a tree"),
    ("a date", "text " * 12),
    ("tree", "a question"),
    ("other words " * 4, "a text other than a word"),
    ("", ""),
    ("a question", "date"),
)

_HEAD_TYPES = ("roberta", "xlm-roberta", "camembert")


def write_tiny_cross_encoder(
    folder: Path, *, labels: int = 1, without: str | None = None, broken: str | None = None, **config: Any
) -> Path:
    """Write the folder; the weight `without` is left out and the one named `broken` is NaN."""
    model_type = config.get("model_type", "bert")
    prefix = "bert." if model_type == "bert" else "roberta."
    settings: dict[str, Any] = {
        "architectures": ["BertForSequenceClassification"],
        "id2label": {str(label): f"LABEL_{label}" for label in range(labels)},
        "label2id": {f"LABEL_{label}": label for label in range(labels)},
        **config,
    }
    folder.mkdir(exist_ok=True)
    write_tiny_bert(folder, prefix=prefix, **settings)
    for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "1_Pooling")

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    second = 1 if model_type == "bert" else 0
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A [SEP] $B:{second} [SEP]:{second}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if model_type == "bert" else [])]
    stated = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "model_input_names": names}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))

    dense, out = (
        ("classifier.dense", "classifier.out_proj")
        if model_type in _HEAD_TYPES
        else ("bert.pooler.dense", "classifier")
    )
    random = np.random.default_rng(11)
    head = {
        f"{dense}.weight": random.normal(0, 0.3, (WIDTH, WIDTH)),
        f"{dense}.bias": random.normal(0, 0.3, (WIDTH,)),
        f"{out}.weight": random.normal(0, 0.5, (labels, WIDTH)),
        f"{out}.bias": random.normal(0, 0.5, (labels,)),
    }
    weights = load_file(folder / "model.safetensors")
    weights |= {name: value.astype(np.float32) for name, value in head.items()}
    if without:
        del weights[without]
    if broken:
        weights[broken][:] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
