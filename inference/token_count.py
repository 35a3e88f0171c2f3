"""Counts the tokens of a language model by its `tokenizer.json`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from inference.lazy_value import LazyValue


class TokenizerFile:
    """The file is read at the first use."""

    def __init__(self, path: Path) -> None:
        # Here, since few processes count tokens, and the library takes time to import.
        from inference.model_folder.word_pieces import read_tokenizer

        self._path = path
        self._tokenizer = LazyValue(lambda: read_tokenizer(path))

    @property
    def fingerprint(self) -> str:
        """The hash of the file; its path if it cannot be read."""
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()[:16]
        except OSError:
            return str(self._path)

    def count(self, text: str) -> int:
        """The number of tokens without special tokens.  Raises ModelMissing."""
        from inference.model_folder.word_pieces import whole_characters

        return len(self._tokenizer().encode(whole_characters(text), add_special_tokens=False).ids)
