"""`chorale keys`: the keys of callers of the HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.installation import find_installation, open_keys
from cli.options import AsJson, command_group, seconds_of
from cli.output import print_json, print_line
from cli.terminal import Text, moment, plain_table, print_result, stderr, stdout
from models.errors import WrongDeclaration

if TYPE_CHECKING:
    from rich.table import Table

    from records.keys.key_store import Key, KeyStore

keys = command_group("Create, list and revoke the keys of callers of the HTTP API.")

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The key's id, or what `list` shows of it, or the key itself.")
]

_STYLES = {"active": "green", "expired": "yellow", "revoked": "red"}


@keys.command()
def create(
    namespace: Annotated[
        list[str],
        typer.Option(
            "--namespace",
            "-n",
            help="A namespace that the key may use; may be given again; `*` is every one.",
        ),
    ],
    scope: Annotated[
        list[str],
        typer.Option(
            help="search:run, search:read, documents:write, jobs:write, audit:read, or admin, which includes the "
            "others; may be given again."
        ),
    ],
    name: Annotated[str, typer.Option(help="What the key is for, as `list` shows it.")] = "",
    tenant: Annotated[
        str,
        typer.Option(
            help="Keys of one tenant see the same searches and jobs. By default the key is a tenant of its own.",
            show_default=False,
        ),
    ] = "",
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FILTER",
            help="The key finds only documents that meet this, such as `customer=acme`; may be given again.",
        ),
    ] = None,
    max_top_k: Annotated[
        int | None, typer.Option(help="Most hits of a question.", show_default=False)
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(help="Most documents of each branch.", show_default=False)
    ] = None,
    max_questions: Annotated[
        int | None, typer.Option(help="Most questions of a search.", show_default=False)
    ] = None,
    max_timeout_s: Annotated[
        float | None, typer.Option(help="Longest time of a search.", show_default=False)
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(help="Most calls in a minute.", show_default=False)
    ] = None,
    weight: Annotated[
        float, typer.Option(help="The tenant's share of the lines of jobs: 2 gets twice as many as 1.")
    ] = 1.0,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long the key works, as in 90d or 12h; by default until revoked."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is never shown again: only a hash of it is stored.

    Examples:

        chorale keys create --namespace docs --scope search:run --max-top-k 50 --expires 90d

        chorale keys create -n docs --scope search:run --scope search:read --tenant acme --filter customer=acme
    """
    import time

    from cli.options import parse_filters
    from config.secret_keys import secret_of_key
    from records.keys.grant import Grant

    grant = Grant(
        key_id="",
        tenant=tenant,
        namespaces=None if "*" in namespace else frozenset(namespace),
        scopes=frozenset(scope),
        filters=parse_filters(filter_ or ()),
        max_top_k=max_top_k,
        max_depth=max_depth,
        max_questions=max_questions,
        max_timeout_s=max_timeout_s,
        requests_per_minute=requests_per_minute,
        weight=weight,
    )
    lasts_s = None if expires is None else seconds_of(expires, "--expires", most_days=3_650)
    expires_at_ms = None if lasts_s is None else (time.time_ns() // 1_000_000) + lasts_s * 1_000
    with _open() as store:
        made = store.create(grant, name=name, expires_at_ms=expires_at_ms)
    if as_json:
        secret = secret_of_key(find_installation().settings, made.key_id)
        fields = {"key": made.text, "key_id": made.key_id, "expires_at_ms": expires_at_ms}
        print_json({**fields, "webhook_secret": secret})
        return
    print_line(made.text)
    stderr().print(
        f"keep it now, it is not shown again; `chorale keys revoke {made.key_id}` ends it", soft_wrap=True
    )


@keys.command("list")
def list_(
    n: Annotated[int, typer.Argument(metavar="[N]", min=1, max=100_000, help="Number of keys.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List the newest keys with their rights and when they were last used. The secrets of keys are not shown."""
    import time

    with _open() as store:
        listed = store.list(n + 1)
    now_ms, has_more = time.time_ns() // 1_000_000, len(listed) > n
    table = _table(listed[:n], now_ms) if listed else "there are no keys yet: `chorale keys create` makes one"
    more = [f"there are older keys: `chorale keys list {10 * n}`"] if has_more else []
    fields = {"keys": [_fields(key, now_ms) for key in listed[:n]], "has_more": has_more}
    print_result(fields, table, *more, as_json=as_json)


@keys.command()
def revoke(key: KeyArgument) -> None:
    """End a key. Every process of the API refuses it within a second; what it has begun goes on."""
    key_id = _id_in(key)
    with _open() as store:
        store.revoke(key_id)
    stdout().print(f"{key_id}: revoked")


@keys.command("webhook-secret")
def webhook_secret(key: KeyArgument) -> None:
    """Print the secret with which the receiver of this key's webhooks verifies them.

    It is derived from CHORALE_WEBHOOK_SECRET and the key's id: each key has its own, and it changes with both. While
    CHORALE_WEBHOOK_SECRET has two secrets, this is derived from the first, and webhooks are signed with both.
    """
    from config.secret_keys import secret_of_key
    from records.keys.key_store import no_key

    key_id = _id_in(key)
    with _open() as store:
        if not store.has(key_id):
            raise no_key(key_id)
    secret = secret_of_key(find_installation().settings, key_id)
    if secret is None:
        raise WrongDeclaration("webhooks are not sent: set CHORALE_WEBHOOK_SECRET")
    print_line(secret)


def _id_in(key: str) -> str:
    return key.removeprefix("chorale_").partition("_")[0]


def _open() -> closing[KeyStore]:
    return open_keys(find_installation(has_structlog=False).settings)


def _fields(key: Key, now_ms: int) -> dict[str, Any]:
    """A key as `chorale keys list --json` prints it."""
    from records.keys.key_store import key_prefix

    return {"prefix": key_prefix(key.key_id), "state": key.state(now_ms), **asdict(key)}


def _table(listed: Sequence[Key], now_ms: int) -> Table:
    """A row for each key."""
    table = plain_table("key", "", "namespaces", "scopes", "last used (UTC)", "name (tenant)")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for key in listed:
        state = key.state(now_ms)
        tenant = "" if key.tenant == key.key_id else f"({key.tenant})"
        table.add_row(
            key.key_id,
            Text(state, _STYLES[state]),
            # A line for each: the words of a narrow column would break.
            "*" if key.namespaces is None else "\n".join(key.namespaces),
            "\n".join(key.scopes),
            "never" if key.used_at_ms is None else moment(key.used_at_ms),
            Text(" ".join(filter(None, (key.name, tenant))), overflow="fold"),
        )
    return table
