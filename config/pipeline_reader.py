"""The pipeline declaration: stores, branches and named configurations, read from TOML or YAML.

`config/pipeline.toml` is the embedded default and the example to copy.  A wrong declaration stops the start with every
complaint at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chorale_client.wire_names import (
    QUEUE_BRANCH,
    QUEUE_BULK,
    QUEUE_FUSION,
    QUEUE_INDEX,
    QUEUE_RETRIEVE,
    RESERVED_BRANCH_NAMES,
)
from pydantic import BaseModel, ValidationError

from config import extensions
from config import pipeline_checks as checks
from config.declaration_file import WrongSyntax, complaints, line_of, read_table
from config.declarations import (
    BoostTable,
    BranchDeclaration,
    Configuration,
    ConfigurationTable,
    FieldDeclaration,
    Interleaving,
    LivePair,
    Pipeline,
    PipelineFile,
    Shadow,
    StoreDeclaration,
    proposed_name,
)
from config.model_declarations import ENCODER_KINDS, DeclaredEncoder, RerankerDeclaration
from models.boost_plan import BoostPlan
from models.declarations.extensions import Kinds, Options
from models.errors import WrongDeclaration

DEFAULT_FILE = Path(__file__).with_name("pipeline.toml")

_BRANCH_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_QUEUE_NAME = re.compile(r"chorale\.[a-z][a-z0-9_]{0,31}")
_RESERVED_QUEUES = frozenset({QUEUE_RETRIEVE, QUEUE_FUSION, QUEUE_INDEX, QUEUE_BULK})
_OTHER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TABLES_OF_KINDS = {"store kind": "stores", "branch kind": "branches", "fusion method": "methods"}


_Table = TypeVar("_Table", bound=BaseModel)
_Pair = TypeVar("_Pair", bound=LivePair)


class PipelineReader:
    """Reads one file and collects all complaints about it."""

    def __init__(self, file: Path, text: str, kinds: Kinds) -> None:
        self._file, self._text, self._built_in = file, text, kinds
        self._kinds = kinds
        """With the kinds and methods of packages that the file names."""
        self.complaints: list[tuple[int, str]] = []
        """Line and text of each."""

    def read(self) -> Pipeline | None:
        """The pipeline, which is valid only if `complaints` is empty afterwards."""
        declared = self._parse()
        if declared is None:
            return None
        stores = self._tables(StoreDeclaration, "stores", declared.stores)
        for name, store in stores.items():
            self._check_kind("store kind", store.kind, store.options, ("stores", name))
        branches = tuple(
            branch
            for name, table in declared.branches.items()
            if (branch := self._branch(name, table, declared.stores))
        )
        for store in stores.values():
            self._complain_of(checks.wrong_store(store, stores, self._kinds))
        for branch in branches:
            store_of = stores.get(branch.store)
            self._complain_of(checks.wrong_branch(branch, store_of, declared.encoders, self._kinds))
        if not declared.branches:
            self._complain(("branches",), "no branch is declared; add a table such as [branches.bm25]")
        boosts = self._boosts(declared.boosts)
        rerankers = {
            name: self._table(RerankerDeclaration, ("rerankers", name), table)
            for name, table in declared.rerankers.items()
        }
        encoders = {
            name: encoder
            for name, table in declared.encoders.items()
            if (encoder := self._encoder(("encoders", name), table))
        }
        fields = self._tables(FieldDeclaration, "fields", declared.fields)
        # A file without configurations gets plain RRF over its branches.
        tables = declared.configurations or {"rrf": {"method": "rrf"}}
        configurations = {
            name: configuration
            for name, table in tables.items()
            if (configuration := self._configuration(name, table, declared.branches, boosts, rerankers))
        }
        default = declared.default_configuration or next(iter(tables))
        self._one_of(default, "configuration", tables, ("default_configuration",))
        pipeline = Pipeline(stores, branches, configurations, default, self._kinds, encoders, fields)
        for configuration in configurations.values():
            self._complain_of(checks.wrong_configuration(configuration, pipeline))
        proposed = {
            proposed_name(name): each.model_copy(update={"name": proposed_name(name), "adapt": None})
            for name, each in configurations.items()
            if each.adapt is not None
        }
        pipeline = replace(pipeline, configurations={**configurations, **proposed})
        interleaving = self._live_pair(Interleaving, "interleaving", declared.interleaving, pipeline)
        shadow = self._live_pair(Shadow, "shadow", declared.shadow, pipeline)
        return replace(pipeline, interleaving=interleaving, shadow=shadow)

    def _parse(self) -> PipelineFile | None:
        try:
            raw = read_table(self._file, self._text)
        except WrongSyntax as error:
            self.complaints.append((error.line, f"{self._file}:{error.line}: {error}"))
            return None
        if not isinstance(raw, dict):
            self.complaints.append((1, f"{self._file}:1: not a table of stores, branches and configurations"))
            return None
        return self._table(PipelineFile, (), raw)

    def _table(self, kind: type[_Table], path: tuple[str, ...], table: Mapping[str, Any]) -> _Table | None:
        """`table` read as a `kind`, which is named after the table; None after complaints."""
        named = {"name": path[-1]} if len(path) == 2 and "name" in kind.model_fields else {}
        if named:
            if path[0] != "fields":  # the metadata of documents have any names
                self._check_name(path)
            if "name" in table:
                self._complain((*path, "name"), "the name is that of the table; remove this field")
                return None
        try:
            return kind(**named, **table)
        except ValidationError as error:
            for place, fault, message in complaints(error, table):
                if fault == "extra_forbidden":
                    fields = (field for field in kind.model_fields if field != "name")
                    message = f"unknown field; there are: {', '.join(fields)}"
                self._complain((*path, *place), message)
            return None

    def _tables(
        self, kind: type[_Table], what: str, tables: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, _Table]:
        """The declarations of this table that are right, by name."""
        read = {name: self._table(kind, (what, name), table) for name, table in tables.items()}
        return {name: each for name, each in read.items() if each is not None}

    def _check_name(self, path: tuple[str, ...]) -> None:
        kind, name = path
        pattern = _BRANCH_NAME if kind == "branches" else _OTHER_NAME
        if not pattern.fullmatch(name):
            self._complain(path, f"{name[:80]!r} is no valid name; a name matches {pattern.pattern}")

    def _branch(
        self, name: str, table: Mapping[str, Any], stores: Collection[str]
    ) -> BranchDeclaration | None:
        path = ("branches", name)
        if name in RESERVED_BRANCH_NAMES:
            self._complain(path, f"reserved for a queue: {', '.join(sorted(RESERVED_BRANCH_NAMES))}")
        if "store" not in table:
            self._complain(path, f"a branch needs a store; there are: {checks.listed(stores)}")
            return None
        branch = self._table(
            BranchDeclaration, path, {"queue": QUEUE_BRANCH.format(branch=name)} | dict(table)
        )
        if branch is None:
            return None
        self._check_kind("branch kind", branch.kind, branch.options, path)
        self._one_of(branch.store, "store", stores, (*path, "store"))
        if not _QUEUE_NAME.fullmatch(branch.queue) or ("queue" in table and branch.queue in _RESERVED_QUEUES):
            reserved = ", ".join(sorted(_RESERVED_QUEUES))
            self._complain(
                (*path, "queue"), f"a queue matches {_QUEUE_NAME.pattern}, and is none of {reserved}"
            )
        return branch

    def _encoder(self, path: tuple[str, ...], table: Mapping[str, Any]) -> DeclaredEncoder | None:
        kind = str(table.get("kind", "onnx"))
        self._one_of(kind, "encoder kind", ENCODER_KINDS, (*path, "kind"))
        return self._table(ENCODER_KINDS[kind], path, table) if kind in ENCODER_KINDS else None

    def _boosts(self, own: Mapping[str, Mapping[str, Any]]) -> dict[str, BoostPlan | None]:
        """The shipped presets and the file's own; None for one with a complaint."""
        presets: dict[str, BoostPlan | None] = {}
        if self._file != DEFAULT_FILE:
            shipped = tomllib.loads(DEFAULT_FILE.read_text(encoding="utf-8"))["boosts"]
            presets = {name: BoostTable(**table).resolved() for name, table in shipped.items()}
        for name, table in own.items():
            boosts = self._table(BoostTable, ("boosts", name), table)
            presets[name] = boosts.resolved() if boosts else None
        return presets

    def _configuration(
        self,
        name: str,
        table: Mapping[str, Any],
        branches: Collection[str],
        boosts: Mapping[str, BoostPlan | None],
        rerankers: Mapping[str, RerankerDeclaration | None],
    ) -> Configuration | None:
        path = ("configurations", name)
        read = self._table(ConfigurationTable, path, table)
        if read is None:
            return None
        self._kind_of("fusion method", read.method, (*path, "method"))
        self._complain_of(checks.unknown_branches(read, branches))
        if read.boosts is not None:
            self._one_of(read.boosts, "boosts", boosts, (*path, "boosts"))
        if read.reranker is not None:
            self._one_of(read.reranker, "reranker", rerankers, (*path, "reranker"))
        resolved = {"boosts": boosts.get(read.boosts or ""), "reranker": rerankers.get(read.reranker or "")}
        return Configuration(**{**dict(read), **resolved})

    def _live_pair(
        self, kind: type[_Pair], name: str, table: Mapping[str, Any] | None, pipeline: Pipeline
    ) -> _Pair | None:
        """The table of two configurations that users' requests compare."""
        declared = None if table is None else self._table(kind, (name,), table)
        if declared is not None:
            self._complain_of(checks.wrong_pair(declared, pipeline, (name,)))
        return declared

    def _check_kind(self, what: str, kind: str, options: Mapping[str, Any], path: tuple[str, ...]) -> None:
        declared_kind = self._kind_of(what, kind, (*path, "kind"))
        if declared_kind is None:
            return
        known: Options = declared_kind.options
        if isinstance(known, type):
            self._table(known, (*path, "options"), options)
            return
        for option, value in options.items():
            where = (*path, "options", option)
            self._one_of(option, f"option of {kind}", known, where)
            if (allowed := known.get(option)) is not None:
                self._one_of(str(value), option, allowed, where)

    def _kind_of(self, what: str, name: str, path: tuple[str, ...]) -> Any | None:
        """The built-in kind or method of this name, or a package's, which is imported; None after a complaint."""
        field = _TABLES_OF_KINDS[what]
        try:
            outside = extensions.find(what, name, getattr(self._built_in, field))
        except WrongDeclaration as error:
            self._complain(path, str(error))
            return None
        if outside is not None:
            self._kinds |= Kinds(**{field: {name: outside}})
        return getattr(self._kinds, field)[name]

    def _one_of(self, name: str, what: str, choices: Collection[str], path: tuple[str, ...]) -> None:
        self._complain_of(checks.one_of(name, what, choices, path))

    def _complain_of(self, mistakes: checks.Mistakes) -> None:
        for path, message in mistakes:
            self._complain(path, message)

    def _complain(self, path: tuple[str, ...], message: str) -> None:
        line = line_of(self._file, self._text, path)
        where = ".".join(path)
        self.complaints.append((line, f"{self._file}:{line}: {where}: {message}"))


def declared_queues(file: Path | None) -> list[str]:
    """The queues of the branches that a file declares, for a process that checks nothing else.  Raises WrongDeclaration."""
    try:
        declared = file or DEFAULT_FILE
        branches = read_table(declared, declared.read_text(encoding="utf-8-sig"))["branches"]
        named = {
            name: table.get("queue", QUEUE_BRANCH.format(branch=name)) for name, table in branches.items()
        }
        return list(dict.fromkeys(named.values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise WrongDeclaration(f"{file}: the pipeline file cannot be read: {error!r}") from error


def read_pipeline(file: Path, kinds: Kinds) -> Pipeline:
    """Raises WrongDeclaration with every complaint, a line each: `file:line: what: why; there are: the choices`."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongDeclaration(f"{file}: the pipeline file cannot be read: {error}") from error
    reader = PipelineReader(file, text, kinds)
    pipeline = reader.read()
    if pipeline is None or reader.complaints:
        raise WrongDeclaration("\n".join(complaint for _, complaint in sorted(reader.complaints)))
    return pipeline
