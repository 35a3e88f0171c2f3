"""`chorale rules`: what comes first or never in a namespace, which words mean the same, and weights, as one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli.options import AsJson, command_group
from cli.output import print_json, print_line
from cli.terminal import Text, counted, moment, plain_table, print_result, stderr, stdout

if TYPE_CHECKING:
    from rich.table import Table

    from cli.installation import Installation
    from config.declarations import Pipeline
    from models.rules import Rules
    from records.rules.store import RuleStore, Version

rules = command_group("Pin and block documents, name synonyms, set weights, and show every change.")

Namespace: TypeAlias = Annotated[str, typer.Argument(metavar="NAMESPACE")]

_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


@rules.command()
def get(
    namespace: Namespace,
    version: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The rules that this version had, which `history` lists.",
            show_default="the present version",
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", "-q", help="Show what the rules do to this question.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the rules of a namespace as the file that `chorale rules put` takes.

    Examples:

        chorale rules get law > law-rules.toml

        chorale rules get law --question "how do I end a lease?"

        chorale rules get law --version 3 | chorale rules put -
    """
    from models.errors import WrongDeclaration
    from records.rules.editing import RulesFile, toml_of
    from records.rules.matching import Matcher
    from records.rules.store import MAX_VERSIONS, Version

    with _open() as (_, store):
        versions = {
            each.version: each for each in [Version(namespace), *store.history(namespace, MAX_VERSIONS)]
        }
    present = max(versions)
    wanted = present if version is None else version
    if wanted not in versions:
        stored = f"those that are kept: {min(versions)} to {present}"
        raise WrongDeclaration(f"--version: {namespace!r} has no version {wanted} of its rules; {stored}")
    rules = versions[wanted].rules
    if question is not None:
        matched = Matcher(rules, wanted).of(question)
        print_json({"question": question, "rules": matched.model_dump(mode="json") if matched else None})
        return
    file = RulesFile(namespace=namespace, version=present, **dict(rules))
    if as_json:
        print_json(file.model_dump(mode="json", exclude_defaults=True))
    else:
        print_line(toml_of(file))


@rules.command()
def put(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="TOML or JSON; `-` is standard input.", allow_dash=True)
    ],
    as_json: AsJson = False,
) -> None:
    """Replace all rules of the namespace that a file names.

    A file with a `version` is refused if the rules have another one by now; a file without it replaces any.

    Examples:

        chorale rules put law-rules.toml

        chorale rules get law | sed s/2025/2026/ | chorale rules put -
    """
    from redis.exceptions import RedisError

    from cli.namespace_states import existing
    from records.rules.editing import rules_file
    from records.rules.store import copy_rules

    draft = rules_file(_read(file))
    with _open() as (installation, store):
        existing(installation, draft.namespace)
        by = f"{_user()}, command line"
        before = store.current(draft.namespace).version
        after = store.change(draft.namespace, lambda _: draft.rules, by=by, expected=draft.version)
        is_copied = False
        for cell in installation.cells.values() or [installation]:
            if (redis := cell.redis) is not None:
                with suppress(RedisError):
                    copy_rules(redis, store, draft.namespace)
                    is_copied = True
        for line in _unused_weights(draft.rules, installation.pipeline):
            stderr().print(line, soft_wrap=True)
    is_new = after.version > before
    if as_json:
        fields = {"namespace": after.namespace, "version": after.version, "in_redis": is_copied}
        print_json({**fields, "replaced": before if is_new else None})
        return
    sentence = f"{after.namespace}: version {after.version}, {counted(len(after.rules.names), 'rule')}"
    instead = (f", in place of version {before}" if before else ", the first") if is_new else ", as before"
    stdout().print(sentence + instead, soft_wrap=True)
    if not is_copied:
        stderr().print("Redis does not answer: the rules hold when a sweeper has copied them", soft_wrap=True)


@rules.command()
def history(
    namespace: Namespace,
    count: Annotated[int, typer.Option(min=1, max=1_000, help="How many changes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show who has changed the rules, when, and what; newest first.

    Examples:

        chorale rules history shop --count 5
    """
    with _open() as (_, store):
        changes = _change_fields(store.history(namespace, count + 1), count)
    table = _changes_table(changes) if changes else f"{namespace}: nobody has written rules yet"
    print_result({"namespace": namespace, "changes": changes}, table, as_json=as_json)


def _read(file: Path) -> str:
    import sys

    from chorale_client.limits import MAX_RULES_BYTES

    from models.errors import WrongDeclaration

    most = 4 * MAX_RULES_BYTES  # a file has indents and comments
    try:
        if str(file) == "-":
            text = sys.stdin.read(most + 1)
        else:
            with file.open(encoding="utf-8") as opened:
                text = opened.read(most + 1)
    except UnicodeDecodeError:
        raise WrongDeclaration(f"{file}: not UTF-8") from None
    if len(text) > most:
        raise WrongDeclaration(
            f"{file}: longer than {most:,} characters; rules have {MAX_RULES_BYTES:,} bytes at most"
        )
    return text


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


@contextmanager
def _open() -> Iterator[tuple[Installation, RuleStore]]:
    from cli.installation import find_installation, upgraded_database
    from records.database import open_database
    from records.rules.store import RuleStore, RulesUnavailable

    installation = find_installation()
    url = upgraded_database(installation.settings, "rules", RulesUnavailable)
    engine = open_database(url, must_exist=True)
    try:
        yield installation, RuleStore(engine)
    finally:
        engine.dispose()


def _unused_weights(rules: Rules, pipeline: Pipeline) -> Iterator[str]:
    """A line for each name in the weights that the pipeline file does not declare; another process may declare it."""
    branches = sorted(branch.name for branch in pipeline.branches)
    for name, rule in rules.weights.items():
        here = f"weights.{name}: the pipeline file here has no"
        if rule.configuration not in pipeline.configurations:
            known = ", ".join(sorted(pipeline.configurations))
            yield f"{here} configuration {rule.configuration!r}; there are: {known}"
        for branch in sorted(rule.branches.keys() - set(branches)):
            yield f"{here} branch {branch!r}; there are: {', '.join(branches)}"


def _change_fields(versions: Sequence[Version], count: int) -> list[dict[str, Any]]:
    """The first `count` changes as `chorale rules history --json` prints them; `versions` are newest first."""
    from models.rules import Rules
    from records.rules.editing import difference

    older = [*versions[1:], None][: len(versions)]
    return [
        {
            "version": version.version,
            "changed_at_ms": version.changed_at_ms,
            "changed_by": version.changed_by,
            **difference(before.rules if before else Rules(), version.rules),
            "rules": version.rules.model_dump(mode="json", exclude_defaults=True),
        }
        for version, before in list(zip(versions, older, strict=True))[:count]
    ]


def _changes_table(changes: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table(">version", "changed (UTC)", "by", "what")
    for change in changes:
        what = [
            Text(f"{sign}{name}", style) for kind, (sign, style) in _SIGNS.items() for name in change[kind]
        ]
        table.add_row(
            str(change["version"]),
            moment(change["changed_at_ms"]),
            change["changed_by"],
            Text(" ").join(what),
        )
    return table
