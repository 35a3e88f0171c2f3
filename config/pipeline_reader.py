"""The pipeline declaration: stores, branches and named configurations, read from TOML or YAML.

`config/pipeline.toml` is the embedded default and the example to copy.  A wrong declaration stops the start with every
complaint at once.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chorale_client.request import Boosts
from chorale_client.wire_names import (
    QUEUE_BRANCH,
    QUEUE_BULK,
    QUEUE_FUSION,
    QUEUE_INDEX,
    QUEUE_RETRIEVE,
    RESERVED_BRANCH_NAMES,
)
from pydantic import BaseModel, Field, ValidationError

from config import extensions
from config.adaptation import wrong_bounds
from config.declaration_file import WrongSyntax, complaints, line_of, read_table
from config.declarations import (
    BranchDeclaration,
    Choices,
    Configuration,
    FieldDeclaration,
    Interleaving,
    LivePair,
    Pipeline,
    Shadow,
    StoreDeclaration,
    proposed_name,
)
from config.interleaving import wrong_fields, wrong_names
from config.model_declarations import DEFAULT_ENCODER, ENCODER_KINDS, DeclaredEncoder, RerankerDeclaration
from models import cypher
from models.errors import WrongDeclaration
from models.extensions import Declared, Kinds, Options
from models.plan import BoostPlan

DEFAULT_FILE = Path(__file__).with_name("pipeline.toml")

_BRANCH_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_QUEUE_NAME = re.compile(r"chorale\.[a-z][a-z0-9_]{0,31}")
_RESERVED_QUEUES = frozenset({QUEUE_RETRIEVE, QUEUE_FUSION, QUEUE_INDEX, QUEUE_BULK})
_OTHER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class _ConfigurationTable(Choices):
    boosts: str | None = None
    """The name of a table [boosts.<name>] of this file, or of a shipped one."""
    reranker: str | None = None
    """The name of a table [rerankers.<name>]."""


class _Boosts(Boosts):
    unbounded: bool = False
    """True means `max_places` None, because TOML has no null."""

    def resolved(self) -> BoostPlan:
        plain = self.model_dump(exclude={"unbounded", "max_places"})
        return BoostPlan(**plain, max_places=None if self.unbounded else self.max_places)


class _File(Declared):
    default_configuration: str | None = None
    stores: dict[str, dict[str, Any]] = Field(default_factory=dict)
    branches: dict[str, dict[str, Any]] = Field(default_factory=dict)
    configurations: dict[str, dict[str, Any]] = Field(default_factory=dict)
    boosts: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rerankers: dict[str, dict[str, Any]] = Field(default_factory=dict)
    encoders: dict[str, dict[str, Any]] = Field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = Field(default_factory=dict)
    interleaving: dict[str, Any] | None = None
    shadow: dict[str, Any] | None = None


_Table = TypeVar("_Table", bound=BaseModel)
_Pair = TypeVar("_Pair", bound=LivePair)


class PipelineReader:
    """Reads one file and collects all complaints about it."""

    def __init__(self, file: Path, text: str, kinds: Kinds) -> None:
        self._file, self._text, self._kinds = file, text, kinds
        self._known: dict[str, Mapping[str, Any]] = {
            "store kind": kinds.stores,
            "branch kind": kinds.branches,
            "fusion method": kinds.methods,
        }
        self._outside: dict[str, dict[str, Any]] = {what: {} for what in self._known}
        """The kinds and methods of packages that the file names."""
        self.complaints: list[tuple[int, str]] = []
        """Line and text of each."""

    def read(self) -> Pipeline | None:
        """The pipeline, which is valid only if `complaints` is empty afterwards."""
        declared = self._parse()
        if declared is None:
            return None
        stores = {
            name: store
            for name, table in declared.stores.items()
            if (store := self._table(StoreDeclaration, ("stores", name), table))
        }
        for name, store in stores.items():
            self._check_kind("store kind", store.kind, store.options, ("stores", name))
            self._check_documents_of(store, stores)
        branches = tuple(
            branch
            for name, table in declared.branches.items()
            if (branch := self._branch(name, table, declared.stores))
        )
        for branch in branches:
            self._check_store_of(branch, stores.get(branch.store))
            self._check_cypher(branch, stores.get(branch.store))
            self._check_encoder_of(branch, declared.encoders)
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
        fields = {
            name: field
            for name, table in declared.fields.items()
            if (field := self._table(FieldDeclaration, ("fields", name), table))
        }
        # A file without configurations gets plain RRF over its branches.
        tables = declared.configurations or {"rrf": {"method": "rrf"}}
        configurations = {
            name: configuration
            for name, table in tables.items()
            if (configuration := self._configuration(name, table, declared.branches, boosts, rerankers))
        }
        default = declared.default_configuration or next(iter(tables))
        self._one_of(default, "configuration", tables, ("default_configuration",))
        for configuration in configurations.values():
            self._check_weights(configuration, branches)
        kinds = self._kinds | Kinds(*self._outside.values())
        configurations |= self._proposed(configurations, branches)
        pipeline = Pipeline(stores, branches, configurations, default, kinds, encoders, fields)
        interleaving = self._live_pair(
            Interleaving, "interleaving", declared.interleaving, pipeline, wrong_fields
        )
        shadow = self._live_pair(Shadow, "shadow", declared.shadow, pipeline, wrong_names)
        return replace(pipeline, interleaving=interleaving, shadow=shadow)

    def _parse(self) -> _File | None:
        try:
            raw = read_table(self._file, self._text)
        except WrongSyntax as error:
            self.complaints.append((error.line, f"{self._file}:{error.line}: {error}"))
            return None
        if not isinstance(raw, dict):
            self.complaints.append((1, f"{self._file}:1: not a table of stores, branches and configurations"))
            return None
        return self._table(_File, (), raw)

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
            self._complain(path, f"a branch needs a store; there are: {_listed(stores)}")
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
            presets = {name: _Boosts(**table).resolved() for name, table in shipped.items()}
        for name, table in own.items():
            boosts = self._table(_Boosts, ("boosts", name), table)
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
        read = self._table(_ConfigurationTable, path, table)
        if read is None:
            return None
        self._kind_of("fusion method", read.method, (*path, "method"))
        for branch in read.branches or ():
            self._one_of(branch, "branch", branches, (*path, "branches"))
        by_type = (read.weights_by_type or {}).items()
        named: list[tuple[str, ...]] = [("weights", branch) for branch in read.weights or {}]
        named += [("weights_by_type", kind, branch) for kind, weights in by_type for branch in weights]
        named += [("halves", branch) for branch in read.halves or {}]
        for where in named:
            self._one_of(where[-1], "branch", read.branches or branches, (*path, *where))
        if read.boosts is not None:
            self._one_of(read.boosts, "boosts", boosts, (*path, "boosts"))
        if read.reranker is not None:
            self._one_of(read.reranker, "reranker", rerankers, (*path, "reranker"))
        resolved = {"boosts": boosts.get(read.boosts or ""), "reranker": rerankers.get(read.reranker or "")}
        return Configuration(**{**dict(read), **resolved})

    def _live_pair(
        self,
        kind: type[_Pair],
        name: str,
        table: Mapping[str, Any] | None,
        pipeline: Pipeline,
        mistakes: Callable[[_Pair, Pipeline], Iterator[tuple[str, str]]],
    ) -> _Pair | None:
        """The table of two configurations that users' requests compare."""
        declared = None if table is None else self._table(kind, (name,), table)
        for field, message in mistakes(declared, pipeline) if declared else ():
            self._complain((name, field), message)
        return declared

    def _check_weights(self, configuration: Configuration, branches: tuple[BranchDeclaration, ...]) -> None:
        chosen = Pipeline({}, branches, {}, "", self._kinds).branches_of(configuration)
        path = ("configurations", configuration.name)
        all_weights: dict[tuple[str, ...], Mapping[str, float]] = {path: {}}
        for kind, typed in (configuration.weights_by_type or {}).items():
            all_weights[*path, "weights_by_type", kind] = typed
        for where, weights in all_weights.items():
            if chosen and not any(weights.get(branch.name, branch.weight) for branch in chosen):
                self._complain(where, "every weight is 0; at least one must be above 0")

    def _proposed(
        self, configurations: Mapping[str, Configuration], branches: tuple[BranchDeclaration, ...]
    ) -> dict[str, Configuration]:
        """For each configuration that adapts, the one that has the proposed weights."""
        pipeline = Pipeline({}, branches, {}, "", self._kinds)
        proposed = {}
        for configuration in configurations.values():
            if configuration.adapt is None:
                continue
            path = ("configurations", configuration.name, "adapt")
            for message in wrong_bounds(configuration, pipeline):
                self._complain(path, message)
            name = proposed_name(configuration.name)
            if name in configurations:
                self._complain(
                    ("configurations", name), f"the name of what {path[1]!r} proposes; choose another"
                )
            proposed[name] = configuration.model_copy(update={"name": name, "adapt": None})
        return proposed

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
        known = self._known[what]
        try:
            outside = extensions.find(what, name, known)
        except WrongDeclaration as error:
            self._complain(path, str(error))
            return None
        if outside is not None:
            self._outside[what][name] = outside
        return known.get(name, outside)

    def _check_store_of(self, branch: BranchDeclaration, store: StoreDeclaration | None) -> None:
        kind = self._kinds.branches.get(branch.kind) or self._outside["branch kind"].get(branch.kind)
        if store is None or kind is None or kind.asks_http in (None, store.kind == "http"):
            return
        self._complain(
            ("branches", branch.name, "kind"),
            f"the store {store.name!r} is of kind {store.kind!r}: only branches of kind 'http' "
            "search stores of kind 'http', and they search no others",
        )

    def _check_encoder_of(self, branch: BranchDeclaration, encoders: Collection[str]) -> None:
        """Only a branch that embeds names an encoder."""
        kind = self._kinds.branches.get(branch.kind) or self._outside["branch kind"].get(branch.kind)
        if branch.encoder is None or kind is None:
            return
        path = ("branches", branch.name, "encoder")
        self._one_of(branch.encoder, "encoder", {DEFAULT_ENCODER, *encoders}, path)
        if not {"questions", "passages"} & kind.needs:
            self._complain(path, f"a branch of kind {branch.kind!r} embeds nothing")

    def _check_documents_of(self, store: StoreDeclaration, stores: Mapping[str, StoreDeclaration]) -> None:
        """A store that reads another's documents names one that documents are indexed into."""
        kinds = {**self._kinds.stores, **self._outside["store kind"]}
        option = kinds[store.kind].documents_of if store.kind in kinds else None
        if option is not None and isinstance(named := store.options.get(option), str):
            written = [
                name for name, other in stores.items() if other.kind in kinds and kinds[other.kind].writes
            ]
            self._one_of(named, "store with documents", written, ("stores", store.name, "options", option))

    def _check_cypher(self, branch: BranchDeclaration, store: StoreDeclaration | None) -> None:
        kinds = {**self._kinds.stores, **self._outside["store kind"]}
        if store is None or store.kind not in kinds:
            return
        for statement in cypher.statements(branch.options):
            path = ("branches", branch.name, "options", "cypher")
            for name in cypher.unknown_parameters(statement):
                known = ", ".join((*cypher.PARAMETERS, f"{cypher.FILTER_PARAMETER}<field>"))
                self._complain(path, f"no parameter ${name}; there are: {known}")
            if (check := kinds[store.kind].check_cypher) is None:
                running = [name for name, kind in kinds.items() if kind.check_cypher is not None]
                self._complain(
                    path, f"a store of kind {store.kind!r} runs no Cypher; there are: {_listed(running)}"
                )
            elif (complaint := check(store.options, statement)) is not None:
                self._complain(path, complaint)

    def _one_of(self, name: str, what: str, choices: Collection[str], path: tuple[str, ...]) -> None:
        if name not in choices:
            self._complain(path, f"no {what} {name[:80]!r}; there are: {_listed(choices)}")

    def _complain(self, path: tuple[str, ...], message: str) -> None:
        line = line_of(self._file, self._text, path)
        where = ".".join(path)
        self.complaints.append((line, f"{self._file}:{line}: {where}: {message}"))


def _listed(choices: Collection[str]) -> str:
    return ", ".join(sorted(choices)) or "none"


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
