"""The installation that a command works on: its settings, its pipeline, and its Redis where one runs."""

from __future__ import annotations

import logging
import socket
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from config.redis_client import open_redis, refuse_cluster
from config.visible_text import visible
from models.errors import ServiceError, UnsupportedRedis, WrongHome, cause

if TYPE_CHECKING:
    from chorale_client import Cells, Chorale
    from redis import Redis

    from config.declarations import Pipeline
    from config.settings import Settings
    from monitoring.checks import Running
    from records.keys.key_store import KeyStore
    from tasks.wiring.corpus import Corpus
    from tasks.wiring.resources import Resources


class NotRunning(ServiceError):
    """No installation runs here, or its Redis cannot be used.

    `what` is wrong, and `mend` is what to do about it.
    """

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}: {mend}" if mend else what)
        self.what, self.mend = what, mend


class _VisibleLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@dataclass(frozen=True)
class Installation:
    """Opens and reads each thing when it is first asked for."""

    settings: Settings
    redis_url: str | None
    """None if no address is configured and no `chorale up` runs on this home."""

    @property
    def cells(self) -> dict[str, Installation]:
        """The installation with the Redis of each cell, by the cell's name; empty without CHORALE_CELLS."""
        return {name: replace(self, redis_url=url) for name, url in self.settings.cells.items()}

    def cell_of(self, namespace: str) -> Installation:
        """The installation with the Redis that takes the documents of this namespace."""
        if not self.settings.cells:
            return self
        from chorale_client.cells import Placement

        return Placement(self.cells).writer(namespace)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Raises WrongDeclaration."""
        from tasks.wiring.pipeline import load_pipeline

        return load_pipeline(self.settings.pipeline_file)

    @cached_property
    def corpus(self) -> Corpus:
        from tasks.wiring.corpus import Corpus

        if "resources" in self.__dict__:
            return self.resources
        return Corpus(self.settings, self.pipeline)

    @cached_property
    def resources(self) -> Resources:
        """Exists without a Redis too: whatever needs one then raises RedisError."""
        from tasks.wiring.resources import Resources

        nowhere = f"unix://{self.settings.home}/redis.sock"
        return Resources(self.settings, self.pipeline, self.redis_url or nowhere)

    @property
    def redis(self) -> Redis | None:
        """A client of the Redis; None if Redis does not answer, or refuses the login."""
        return None if isinstance(self._redis_or_why_not, NotRunning) else self._redis_or_why_not

    def running_redis(self) -> Redis:
        """A client of the Redis; raises NotRunning with what to do about it."""
        if isinstance(self._redis_or_why_not, NotRunning):
            raise self._redis_or_why_not
        return self._redis_or_why_not

    def running(self) -> Running:
        """What runs here now; raises NotRunning with what to do about it."""
        from monitoring.checks import Running

        return Running.from_pipeline(self.pipeline, self.running_redis(), broker_url=self.settings.broker_url)

    def client(self) -> Chorale:
        """A client of the service; raises NotRunning with what to do about it."""
        from chorale_client import Chorale

        self.running_redis()
        assert self.redis_url is not None
        settings = self.settings
        return Chorale(self.redis_url, broker_url=settings.broker_url, answer_ttl_s=settings.answer_ttl_s)

    def live_cells(self) -> Cells:
        """The cells that have workers; raises NotRunning, with what to do about it, if none has."""
        from chorale_client import Cells

        from monitoring.heartbeats import read_heartbeats

        cells = self.cells or {"": self}
        working = {
            name: cell.client()
            for name, cell in cells.items()
            if cell.redis is not None and read_heartbeats(cell.redis)
        }
        if not working:
            for cell in cells.values():
                cell.running_redis()
            raise NotRunning(
                "Redis answers, but no worker does: start them with `chorale up` in another terminal"
            )
        return Cells(working)

    @cached_property
    def _redis_or_why_not(self) -> Redis | NotRunning:
        from redis import RedisError

        if self.redis_url is None:
            return NotRunning(
                f"nothing runs on {self.settings.home}",
                "start it with `chorale up` in another terminal, or set CHORALE_REDIS_URL",
            )
        client = open_redis(self.redis_url)
        try:
            client.ping()
            refuse_cluster(client, self.redis_url)
        except UnsupportedRedis as error:
            return NotRunning(error.what, error.mend)
        except RedisError as error:
            from config.home import find_redis_url
            from config.redis_client import explained

            explanation = explained(error, self.redis_url)
            mend = explanation.mend
            # A terminal may still have the address of an earlier home.
            if self.settings.redis_url and find_redis_url(self.settings.home) not in (None, self.redis_url):
                mend = f'`chorale up` runs on {self.settings.home} at another address: eval "$(chorale env)"'
            return NotRunning(explanation.what, mend)
        return client


def upgraded_database(settings: Settings, content: str, unavailable: type[ServiceError]) -> str:
    """The address of the audit database once it has the newest schema; raises `unavailable` if it cannot be used.

    `content` says what a command looks for in it.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from records.database import upgrade

    url = settings.audit_database_url
    try:
        upgrade(url)
    except SQLAlchemyError as error:
        raise unavailable(f"the database of the {content} cannot be used: {cause(error)}") from error
    return url


def open_keys(settings: Settings) -> closing[KeyStore]:
    """The keys of the HTTP API; raises KeysUnavailable."""
    from records.keys.key_store import KeyStore, KeysUnavailable

    return closing(KeyStore(upgraded_database(settings, "keys", KeysUnavailable)))


def other_homes(installation: Installation) -> dict[str, str]:
    """The folders of this machine's processes that work on another one than this program, by the processes' names.

    Raises NotRunning.  Processes whose data are all on servers share no folder.
    """
    from monitoring.heartbeats import read_heartbeats

    settings = installation.settings
    homes = {
        beat.name: str(beat.about["home"])
        for beat in read_heartbeats(installation.running_redis())
        # Another host may have the same folder mounted elsewhere.
        if beat.about.get("host") == socket.gethostname()
        and Path(beat.about["home"]).resolve() != settings.home.resolve()
    }
    databases = (settings.audit_database_url, settings.documents_database_url)
    if not homes or any(url.startswith("sqlite") for url in databases):
        return homes
    stores = installation.pipeline.stores.values()
    return homes if any(store.kind == "embedded" for store in stores) else {}


def find_installation(*, is_anywhere: bool = False, has_structlog: bool = True) -> Installation:
    """Read the environment; raises WrongDeclaration, WrongHome.

    A command that is not `is_anywhere` stops if CHORALE_REDIS_URL belongs to another home: it would write into this one.

    This process logs warnings to stderr.  A command whose modules log nothing with structlog has `has_structlog=False`: the lines
    of the client and of libraries need no structlog unless they have to be JSON.
    """
    from config.home import check_home, find_redis_url
    from config.settings import load_settings

    settings = load_settings()
    check_home(settings.home)
    if has_structlog or settings.log_format == "json":
        from config.logging import set_up_logging

        set_up_logging(level="WARNING", log_format=settings.log_format, texts=settings.log_texts)
    elif logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleLines())
    installation = Installation(settings, settings.redis_url or find_redis_url(settings.home))
    if not is_anywhere:
        refuse_other_home(installation)
    return installation


def refuse_other_home(installation: Installation) -> None:
    """Raises WrongHome if CHORALE_REDIS_URL belongs to processes that work on another home."""
    settings = installation.settings
    if settings.redis_url and installation.redis is not None:
        for process, home in other_homes(installation).items():
            raise WrongHome(
                f"CHORALE_REDIS_URL is the Redis of {process}, which works on {home}, and this command on {settings.home}: "
                f"set CHORALE_HOME={home}, or unset CHORALE_REDIS_URL"
            )
