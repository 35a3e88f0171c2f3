"""`chorale rules`: what comes first or never in a namespace, and which words mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cli.options import AsJson, command_group

if TYPE_CHECKING:
    from cli.installation import Installation
    from models.rules import Rules
    from rules.editing import Kind
    from rules.store import RuleStore, Version

rules = command_group("Pin and block documents, name synonyms, and show every change.")

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
    typer.Option("--name", help="The rule's name; one of this name is replaced.", show_default=False),
]


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
    from cli.terminal import print_json, print_line, stderr
    from rules.editing import toml_of
    from rules.matching import Matcher

    with _open() as (_, store):
        version = store.current(namespace)
    if question is not None:
        found = Matcher(version.rules, version.version).of(question)
        print_json({"question": question, "rules": found.model_dump(mode="json") if found else None})
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
    from rules.editing import rules_from

    given = rules_from(_read(file))
    _change(namespace, lambda _: given, as_json=as_json)


@rules.command()
def pin(
    namespace: Namespace,
    documents: DocumentIds,
    question: Questions = None,
    contains: Contains = None,
    name: RuleName = None,
    as_json: AsJson = False,
) -> None:
    """Let documents come first for some questions, in this order, also where no branch finds them.

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
            help="What the words mean, but not the other way round; may be given again.", show_default=False
        ),
    ] = None,
    name: RuleName = None,
    as_json: AsJson = False,
) -> None:
    """Let BM25 search words for one another, or `--means` for the words.

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
    from rules.editing import without_rules

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
    from cli.terminal import print_result
    from cli.views.rules import change_fields, changes_table

    with _open() as (_, store):
        found = change_fields(store.history(namespace, count + 1), count)
    shown = changes_table(found) if found else f"{namespace}: nobody has written rules yet"
    print_result({"namespace": namespace, "changes": found}, shown, as_json=as_json)


def _add(
    namespace: str, kind: Kind, name: str | None, about: str, fields: dict[str, list[str]], *, as_json: bool
) -> None:
    from rules.editing import free_name, with_rule

    _change(
        namespace,
        lambda before: with_rule(before, kind, name or free_name(before, about), fields),
        as_json=as_json,
    )


def _change(namespace: str, change: Callable[[Rules], Rules], *, as_json: bool) -> None:
    from redis.exceptions import RedisError

    from cli.namespace_states import existing
    from cli.terminal import print_json, stderr, stdout
    from rules.store import copy_rules

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
    from cli.terminal import counted

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
    from audit.database import open_database
    from cli.installation import find_installation, upgraded_database
    from rules.store import RuleStore, RulesUnavailable

    installation = find_installation()
    url = upgraded_database(installation.settings, "rules", RulesUnavailable)
    engine = open_database(url, must_exist=True)
    try:
        yield installation, RuleStore(engine)
    finally:
        engine.dispose()
