"""What a caller says to Redis, without a connection: the synchronous and the asynchronous client run the same exchanges.

An exchange is a generator.  It yields what to send in one round trip, gets the replies in the same order, and returns its outcome.
A RedisError of the trip is raised inside the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from redis.exceptions import RedisError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Script:
    """A call of `chorale_client/scripts/<name>.lua`."""

    name: str
    keys: Sequence[Any]
    args: Sequence[Any]


Command = Script | tuple[Any, ...]
"""A script, or the words of a Redis command."""
RoundTrip = Sequence[Command]
Exchange = Generator[RoundTrip, Sequence[Any], T]


def run_exchange(steps: Exchange[T], send: Callable[[RoundTrip], Sequence[Any]]) -> T:
    """`send` makes one round trip.  Raises what `send` and the steps raise."""
    try:
        trip = next(steps)
        while True:
            try:
                replies = send(trip)
            except RedisError as error:
                trip = steps.throw(error)
            else:
                trip = steps.send(replies)
    except StopIteration as end:
        return cast("T", end.value)
