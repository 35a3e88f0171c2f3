"""`chorale rules`: what comes first or never in a namespace, and which words mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli.options import AsJson, command_group
from cli.terminal import (
    Text,
    counted,
    moment,
    plain_table,
    print_json,
    print_line,
    print_result,
    stderr,
    stdout,
)

if TYPE_CHECKING:
    from rich.table import Table

    from cli.installation import Installation
    from models.rules import Rules
    from records.rules.editing import Kind
    from records.rules.store import RuleStore, Version

rules = command_group("Pin and block documents, name synonyms, take proposed weights, and show every change.")

Namespace: TypeAlias = Annotated[str, typer.Argument(metavar="NAMESPACE")]
DocumentIds: TypeAlias = Annotated[list[str], typer.Argument(metavar="DOCUMENT…")]
Questions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--question", "-q", help="For this question; may be given again.", show_default=False),
]
Contains: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="For each question with all of these words, in any order; may be given again.",
        show_default=False,
    ),
]
RuleName: TypeAlias = Annotated[
    str | None,
    typer.Option("--name", help="The rule's name; a rule of this name is replaced.", show_default=False),
]

_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


@rules.command()
def show(
    namespace: Namespace,
    question: Annotated[
        str | None,
        typer.Option("--question", "-q", help="Show what the rules do to this question.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the rules of a namespace as TOML, which `chorale rules set` reads.

    Examples:

        chorale rules show law > law-rules.toml

        chorale rules show law --question "how do I end a lease?"
    """
    from records.rules.editing import toml_of
    from records.rules.matching import Matcher

    with _open() as (_, store):
        version = store.current(namespace)
    if question is not None:
        matched = Matcher(version.rules, version.version).of(question)
        print_json({"question": question, "rules": matched.model_dump(mode="json") if matched else None})
    elif as_json:
        print_json(_fields(version))
    else:
        print_line(toml_of(version.rules))
        stderr().print(_about(version), soft_wrap=True)


@rules.command("set")
def set_(
    namespace: Namespace,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="TOML or JSON; `-` is standard input.", allow_dash=True)
    ],
    as_json: AsJson = False,
) -> None:
    """Replace all rules of a namespace by those of a file.

    Examples:

        chorale rules set law law-rules.toml

        chorale rules show law | sed s/2025/2026/ | chorale rules set law -
    """
    from records.rules.editing import rules_from

    new_rules = rules_from(_read(file))
    _change(namespace, lambda _: new_rules, as_json=as_json)


@rules.command()
def pin(
    namespace: Namespace,
    documents: DocumentIds,
    question: Questions = None,
    contains: Contains = None,
    name: RuleName = None,
    as_json: AsJson = False,
) -> None:
    """Put documents first for some questions, in this order, even if no branch finds them.

    Examples:

        chorale rules pin shop returns-2026 faq-7 --contains "return parcel" --contains refund
    """
    fields = {"questions": question or [], "contains": contains or [], "documents": documents}
    about = (question or contains or documents)[0]
    _add(namespace, "pin", name, about, fields, as_json=as_json)


@rules.command()
def block(
    namespace: Namespace,
    documents: DocumentIds,
    question: Questions = None,
    contains: Contains = None,
    name: RuleName = None,
    as_json: AsJson = False,
) -> None:
    """Keep documents out of all answers, or out of the answers to some questions.

    Examples:

        chorale rules block shop returns-2019 --name outdated
    """
    fields = {"questions": question or [], "contains": contains or [], "documents": documents}
    _add(namespace, "block", name, documents[0], fields, as_json=as_json)


@rules.command()
def synonyms(
    namespace: Namespace,
    words: Annotated[list[str], typer.Argument(metavar="WORD…", help="Words, or phrases in quotes.")],
    means: Annotated[
        list[str] | None,
        typer.Option(
            help="Search this for the words, but not the words for this; may be given again.",
            show_default=False,
        ),
    ] = None,
    name: RuleName = None,
    as_json: AsJson = False,
) -> None:
    """Let BM25 search each of some words for the others, or what they mean (`--means`).

    Examples:

        chorale rules synonyms shop car automobile "motor vehicle"

        chorale rules synonyms shop tv --means television
    """
    _add(namespace, "synonyms", name, words[0], {"words": words, "means": means or []}, as_json=as_json)


@rules.command()
def remove(
    namespace: Namespace,
    names: Annotated[list[str], typer.Argument(metavar="NAME…")],
    as_json: AsJson = False,
) -> None:
    """Remove rules by name.

    Examples:

        chorale rules remove shop outdated cars
    """
    from records.rules.editing import without_rules

    _change(namespace, lambda before: without_rules(before, names), as_json=as_json)


@rules.command()
def history(
    namespace: Namespace,
    count: Annotated[int, typer.Option(min=1, max=1_000, help="How many changes.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show who has changed the rules, when, and what; newest first.

    Examples:

        chorale rules history shop --count 5

        chorale rules history shop --json
    """
    with _open() as (_, store):
        changes = _change_fields(store.history(namespace, count + 1), count)
    table = _changes_table(changes) if changes else f"{namespace}: nobody has written rules yet"
    print_result({"namespace": namespace, "changes": changes}, table, as_json=as_json)


@rules.command()
def undo(
    namespace: Namespace,
    version: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Return to the rules of this version, which `history` shows.",
            show_default="the one before",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take back the last change, or all changes after a version. This is a change of its own.

    Examples:

        chorale rules undo shop

        chorale rules undo shop --version 3
    """
    from models.errors import WrongDeclaration
    from models.rules import Rules
    from records.rules.store import KEPT

    with _open() as (_, store):
        versions = {each.version: each.rules for each in store.history(namespace, KEPT)} | {0: Rules()}
    wanted = max(versions) - 1 if version is None else version
    if wanted not in versions:
        raise WrongDeclaration(f"--version: {namespace!r} has no version {wanted} of its rules")
    _change(namespace, lambda _: versions[wanted], as_json=as_json)


@rules.command()
def take(
    namespace: Namespace,
    configuration: Annotated[str, typer.Argument(metavar="CONFIGURATION")],
    as_json: AsJson = False,
) -> None:
    """Give a configuration the weights that were proposed for it in this namespace.

    Examples:

        chorale rules take shop best
    """
    from config.declarations import proposed_name
    from records.rules.editing import with_proposal_taken

    _change(
        namespace,
        lambda before: with_proposal_taken(before, configuration, proposed_name(configuration)),
        as_json=as_json,
    )


def _add(
    namespace: str, kind: Kind, name: str | None, about: str, fields: dict[str, list[str]], *, as_json: bool
) -> None:
    from records.rules.editing import free_name, with_rule

    _change(
        namespace,
        lambda before: with_rule(before, kind, name or free_name(before, about), fields),
        as_json=as_json,
    )


def _change(namespace: str, change: Callable[[Rules], Rules], *, as_json: bool) -> None:
    from redis.exceptions import RedisError

    from cli.namespace_states import existing
    from records.rules.store import copy_rules

    with _open() as (installation, store):
        existing(installation, namespace)
        after = store.change(namespace, change, by=f"{_user()}, command line")
        is_copied = False
        if (redis := installation.redis) is not None:
            with suppress(RedisError):
                copy_rules(redis, store, namespace)
                is_copied = True
    if as_json:
        print_json({**_fields(after), "in_redis": is_copied})
        return
    stdout().print(_about(after), soft_wrap=True)
    if not is_copied:
        stderr().print("Redis does not answer: the rules hold when a sweeper has copied them", soft_wrap=True)


def _fields(version: Version) -> dict[str, object]:
    return {
        "namespace": version.namespace,
        "version": version.version,
        "rules": version.rules.model_dump(mode="json", exclude_defaults=True),
    }


def _about(version: Version) -> str:
    return f"{version.namespace}: version {version.version}, {counted(len(version.rules.names), 'rule')}"


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
