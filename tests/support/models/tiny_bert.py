"""A sentence-transformers folder with a tiny encoder of random weights, in any shape that a test wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "question", "text", "word", "other", "##s", "date", "tree")
TEXTS = ("", "a", "a question", "words of a tree", "text " * 12, "a date other than a word")
WIDTH, INNER, LAYERS, HEADS, POSITIONS = 32, 48, 2, 4, 40


def write_tiny_bert(
    folder: Path,
    *,
    pooling: str = "mean",
    modules: tuple[str, ...] = ("Normalize",),
    prompts: dict[str, str] | None = None,
    prefix: str = "",
    dtype: type[np.floating[Any]] = np.float32,
    broken: str | None = None,
    **config: Any,
) -> None:
    """Write the folder; `config` goes into config.json, the weight named `broken` is NaN."""
    # RoBERTa counts positions from its padding id, so there [PAD] is not the first word.
    padding = 1 if config.get("model_type") in ("xlm-roberta", "camembert") else 0
    words = (WORDS[1], WORDS[0], *WORDS[2:]) if padding else WORDS
    whole = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": padding,
        "type_vocab_size": 2,
        "vocab_size": len(WORDS),
        **config,
    }
    kinds = ["Transformer", "Pooling", *modules]
    listed = [
        {
            "idx": at,
            "name": str(at),
            "path": "" if at == 0 else f"{at}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    files: dict[str, Any] = {
        "config.json": whole,
        "modules.json": listed,
        "1_Pooling/config.json": {"word_embedding_dimension": WIDTH, "pooling_mode": pooling.split("+")},
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts or {}},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"},
    }
    if "Dense" in modules:
        files["2_Dense/config.json"] = {"in_features": WIDTH, "out_features": 8}
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    _tokenizer(words).save(str(folder / "tokenizer.json"))
    weights = {prefix + name: value.astype(dtype) for name, value in _weights().items()}
    if broken:
        weights[prefix + broken][:] = np.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _weights() -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        square = (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        )
        for name in square:
            shapes |= {f"{at}.{name}.weight": (WIDTH, WIDTH), f"{at}.{name}.bias": (WIDTH,)}
        shapes |= {
            f"{at}.intermediate.dense.weight": (INNER, WIDTH),
            f"{at}.intermediate.dense.bias": (INNER,),
        }
        shapes |= {f"{at}.output.dense.weight": (WIDTH, INNER), f"{at}.output.dense.bias": (WIDTH,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}.{name}.weight": (WIDTH,), f"{at}.{name}.bias": (WIDTH,)}
    return {name: random.normal(0, 0.5, shape) for name, shape in shapes.items()}


def _tokenizer(words: tuple[str, ...]) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
