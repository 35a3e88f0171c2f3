"""Flower's start with our app: without a login it opens no page, and it asks workers nothing that they do not answer."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import click
from celery import Celery

WRONG_LOGIN_S = 0.5
_LOGIN = re.compile(r"[^:]+:.+")
"""`user:password`.  Flower takes an empty login for one that an empty password matches."""


def prepare_flower(app: Celery, *, remote_control: bool) -> None:
    """Called when Flower has read its options and has not opened its port; does nothing in Celery's other commands.

    Ends the process if others than this machine would get Flower's pages without a login.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name != "flower":
        return
    from flower.inspector import Inspector  # type: ignore[import-untyped]
    from flower.views import BaseHandler  # type: ignore[import-untyped]
    from tornado.options import options

    delay_wrong_logins(BaseHandler)
    if complaint := missing_login(options.address, options.unix_socket, options.basic_auth, options.auth):
        sys.exit(complaint)
    if not remote_control:
        # Celery's receiver of events asks all workers for a heartbeat first, and would end if Redis refuses that.
        app.control.broadcast = lambda *_, **__: None
        Inspector._inspect = lambda *_: None
        if "read_only" in options:  # since Flower 2.1; hides the buttons
            options.read_only = True


def delay_wrong_logins(handler: Any) -> None:
    """Let requests with a wrong login wait for each other and for `WRONG_LOGIN_S` each, so that nobody can try many passwords.

    Requests with the right login, and without any, do not wait.  `handler` is the class from which Flower's handlers inherit.
    """
    from tornado.web import HTTPError

    one_after_another = asyncio.Lock()

    async def prepare(self: Any) -> None:
        if "Authorization" not in self.request.headers:
            return
        try:
            self.get_current_user()
        except HTTPError:  # the handler raises it again, if its page needs a login
            async with one_after_another:
                await asyncio.sleep(WRONG_LOGIN_S)

    handler.prepare = prepare


def missing_login(address: str, unix_socket: str, logins: Sequence[str] | None, oauth: str) -> str:
    """What is wrong with these options of Flower; empty if nothing is."""
    if not all(_LOGIN.fullmatch(login) for login in logins or ()):
        return "Flower: a login is `user:password` (FLOWER_BASIC_AUTH), and neither part is empty; a comma separates two logins"
    if logins or oauth or unix_socket or _is_loopback(address):
        return ""
    return (
        f"Flower: no login for {address or 'every address of this machine'}; set FLOWER_BASIC_AUTH=user:password, or "
        "start it with --address=127.0.0.1"
    )


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
