"""An index of tantivy: passages, and beside them whole documents, each with its own word statistics.

Questions become boolean queries of analysed terms and are never parsed: tantivy's parser would interpret `ns:x`,
`*` and `NOT`, and 5,000 parentheses kill the process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tantivy
from numpy.typing import NDArray

from models.errors import BadIndex, StoreUnavailable
from search.ranking_end import TEXT_DECIMALS

State = tuple[int, int, int]
"""Inode, size and time of the last change."""


def segment_files(folder: Path) -> dict[Path, State]:
    """The files of the segments that `meta.json` names now.  Raises OSError, ValueError and KeyError if it cannot be read."""
    segments = json.loads((folder / "meta.json").read_bytes())["segments"]
    stems = {segment["segment_id"].replace("-", "") for segment in segments}
    paths = [path for path in folder.iterdir() if path.stem.partition(".")[0] in stems]
    return {path: state for path in paths if (state := _state(path)) is not None}


def changed_file(files: Mapping[Path, State]) -> Path | None:
    """The first of these files that was written to since; takes 2 µs a file."""
    for path, before in files.items():
        now = _state(path)
        if now is not None and now[0] == before[0] and now != before:
            return path
    return None


def _state(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


_WRITER_HEAP_BYTES = 64_000_000
DOCUMENTS = "documents"
"""The folder inside of a namespace's index in which the index of its whole documents is."""

_FIELD = "text"
_TOKENIZER = "whitespace"
# Without positions, because there are no phrase queries; the index is a third smaller.
_INDEXED = "freq"
_SCHEMA = (
    tantivy.SchemaBuilder()
    .add_integer_field("rid", indexed=True, fast=True)
    .add_text_field(_FIELD, tokenizer_name=_TOKENIZER, index_option=_INDEXED)
    .build()
)


def create_index(path: Path) -> None:
    """Create empty indexes of passages and of documents, replacing any old ones."""
    shutil.rmtree(path, ignore_errors=True)
    for folder in (path, path / DOCUMENTS):
        folder.mkdir(parents=True)
        with intelligible(path):
            tantivy.Index(_SCHEMA, str(folder))


def check_index(path: Path) -> None:
    """Raises BadIndex if one of the indexes cannot be opened."""
    for folder in (path, path / DOCUMENTS):
        with intelligible(path):
            tantivy.Index.open(str(folder)).searcher()


def indexed_among(path: Path, portions: Iterable[Sequence[int]]) -> Iterator[set[int]]:
    """The rids of each portion that the index of passages has."""
    with intelligible(path):
        searcher = tantivy.Index.open(str(path)).searcher()
    for rids in portions:
        with intelligible(path):
            these = tantivy.Query.term_set_query(_SCHEMA, "rid", list(rids))
            hits = searcher.search(these, len(rids), count=False).hits
            values: Any = searcher.fast_field_values("rid", [address for _, address in hits])
        yield {int(rid) for rid in values}


def write_index(path: Path, *, delete: Sequence[int], add: Iterable[tuple[int, str]]) -> None:
    """Delete rids, add (rid, terms with spaces between), commit; durable on return.  All or nothing; may be repeated."""
    with intelligible(path):
        index = tantivy.Index.open(str(path))
        writer = index.writer(_WRITER_HEAP_BYTES, 1)
        # A killed commit leaves files under names that the next commit uses again and fails on.
        writer.garbage_collect_files()
        if delete:
            writer.delete_documents_by_query(tantivy.Query.term_set_query(_SCHEMA, "rid", list(delete)))
        for rid, terms in add:
            document = tantivy.Document()
            # `Document(rid=…)` would guess the type; the wrong guess kills the writer's thread.
            document.add_integer("rid", rid)
            document.add_text(_FIELD, terms)
            writer.add_document(document)
        writer.commit()
        # Without this wait segments stay unmerged: 300 commits made queries 12 to 40 times slower.
        writer.wait_merging_threads()


class LexicalIndex:
    """One open index for reading.  Shows the commits up to the last reload."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with intelligible(path):
            self._index = tantivy.Index.open(str(path))
            # The default watches the directory from a thread and reloads at any time.
            self._index.config_reader("manual")

    def reloaded(self) -> LexicalSearcher:
        with intelligible(self.path):
            self._index.reload()
            searcher = self._index.searcher()
            return LexicalSearcher(self.path, searcher, segment_files(self.path))


class LexicalSearcher:
    """A snapshot of the index; threads may share it."""

    def __init__(self, path: Path, searcher: tantivy.Searcher, files: Mapping[Path, State]) -> None:
        self._path = path
        self._searcher = searcher
        self._files = files

    def has(self, rid: int) -> bool:
        with intelligible(self._path):
            query = tantivy.Query.term_query(_SCHEMA, "rid", rid)
            return bool(self._searcher.search(query, 1, count=False).hits)

    def check(self) -> None:
        """Raises BadIndex if a file was written to."""
        if changed := changed_file(self._files):
            raise _bad(self._path, f"{changed} was written to")

    def best(self, query: tantivy.Query, limit: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rids and scores, best first."""
        # tantivy allocates `limit` hits in advance; one more than there are documents shows that the answer is
        # complete.
        limit = min(limit, self._searcher.num_docs + 1)
        with intelligible(self._path):
            hits = self._searcher.search(query, limit, count=False).hits
            rids: Any = self._searcher.fast_field_values("rid", [address for _, address in hits])
        scores = np.array([score for score, _ in hits], np.float64)
        return np.array(rids, np.int64), np.round(scores, TEXT_DECIMALS)


def any_term(terms: Mapping[str, int]) -> tantivy.Query:
    """BM25 is linear in a term's count in the question, so the count becomes a boost."""
    parts = []
    for term, count in terms.items():
        query = tantivy.Query.term_query(_SCHEMA, _FIELD, term, index_option=_INDEXED)
        if count > 1:
            query = tantivy.Query.boost_query(query, float(count))
        parts.append((tantivy.Occur.Should, query))
    return tantivy.Query.boolean_query(parts)


def among(query: tantivy.Query, rids: NDArray[np.int64]) -> tantivy.Query:
    """The query restricted to these entries; scores stay the same."""
    chosen = tantivy.Query.term_set_query(_SCHEMA, "rid", rids.tolist())
    scoreless = tantivy.Query.const_score_query(chosen, 0.0)
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, scoreless)])


@contextmanager
def intelligible(path: Path) -> Iterator[None]:
    """Translates tantivy's errors and Rust panics to BadIndex, a full disk to StoreUnavailable."""
    try:
        yield
    except (ValueError, KeyError, RuntimeError, OSError) as error:
        if "No space left" in str(error):
            raise StoreUnavailable(f"no space left for the lexical index in {path.parent}") from error
        raise _bad(path, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _bad(path, error) from error


def _bad(path: Path, error: BaseException | str) -> BadIndex:
    namespace = (path.parent if path.name == DOCUMENTS else path).name.split(".")[0]
    return BadIndex(
        f"the lexical index of namespace {namespace!r} is missing or damaged ({str(error)[:200]}); "
        "`chorale verify` or `chorale index --rebuild` rebuilds it"
    )
