"""What an operator's command finds around itself: settings, pipeline, and the Redis of a running installation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from models.errors import ServiceError

if TYPE_CHECKING:
    from redis import Redis

    from assembly.resources import Resources
    from config.pipeline import Pipeline
    from config.settings import Settings

ANSWER_LIMIT_S = 2.0


class NotRunning(ServiceError):
    """No installation runs here, or its Redis cannot be used; `what` is wrong, and `mend` what to do about it."""

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}: {mend}" if mend else what)
        self.what, self.mend = what, mend


@dataclass(frozen=True)
class Installation:
    """Read once; nothing is opened before it is asked for."""

    settings: Settings
    pipeline: Pipeline
    redis_url: str | None
    """None where none is configured and no `chorale up` runs on this home."""

    @cached_property
    def resources(self) -> Resources:
        """Also without a Redis: then only what needs it raises RedisError."""
        from assembly.resources import Resources

        nowhere = f"unix://{self.settings.home}/redis.sock"
        return Resources(self.settings, self.pipeline, self.redis_url or nowhere)

    @property
    def redis(self) -> Redis | None:
        """A client of the Redis, if it takes us in."""
        return None if isinstance(self._asked, NotRunning) else self._asked

    def running_redis(self) -> Redis:
        """The client; raises NotRunning with what to do where there is none."""
        if isinstance(self._asked, NotRunning):
            raise self._asked
        return self._asked

    @cached_property
    def _asked(self) -> Redis | NotRunning:
        from redis import Redis, RedisError

        if self.redis_url is None:
            return NotRunning(
                f"nothing runs on {self.settings.home}",
                "start it with `chorale up` in another terminal, or set CHORALE_REDIS_URL",
            )
        client = Redis.from_url(
            self.redis_url, socket_timeout=ANSWER_LIMIT_S, socket_connect_timeout=ANSWER_LIMIT_S
        )
        try:
            client.ping()
        except RedisError as error:
            from config.redis_failures import trouble

            found = trouble(error, self.redis_url)
            return NotRunning(found.what, found.mend)
        return client


def find_installation() -> Installation:
    """Read the environment; raises WrongDeclaration, WrongHome.  Logs of this process go to stderr, warnings only."""
    from config.home_format import check_home
    from config.local_redis import find_redis_url
    from config.logging import set_up_logging
    from config.pipeline import load_pipeline
    from config.settings import load_settings

    settings = load_settings()
    check_home(settings.home)
    set_up_logging(level="WARNING", log_format=settings.log_format, texts=settings.log_texts)
    redis_url = settings.redis_url or find_redis_url(settings.home)
    return Installation(settings, load_pipeline(settings.pipeline_file), redis_url)
