"""Known weaknesses of Redis' versions since 2024, as their CVE records and release notes say (looked up in November 2026).

Each record is at https://www.cve.org/CVERecord?id=<id>, the release notes at https://github.com/redis/redis/releases.
Left out is what concerns modules, replicas or other programs than the server, or lets only an administrator stop it.
Valkey and others have their own numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cli.doctor.finding import Finding
from cli.installation import Installation

Version: TypeAlias = tuple[int, ...]
"""Three numbers."""


@dataclass(frozen=True, slots=True)
class Weakness:
    cve: str
    who: str
    """Who can use it, and for what."""
    mended: str
    """The first version without the weakness in each series that was mended.  Series newer than these do not have it."""
    since: Version = (0,)

    def is_in(self, version: Version) -> bool:
        """Whether the version has the weakness.  A series that is absent from `mended` and older than its newest version has it."""
        by_series = {one[:2]: one for one in map(_numbers, self.mended.split())}
        if version < self.since:
            return False
        return version < by_series.get(version[:2], max(by_series.values()))


_SCRIPT = "whoever may run a script, which every login may, can run code in the server"
_LOGIN = "whoever has a login can run code in the server"
_ADMINISTRATOR = "an administrator can run code in the server"
_STOP = "whoever has a login can stop the server"
_LUA_2025 = "6.2.20 7.2.11 7.4.6 8.0.4 8.2.2"

WEAKNESSES = (
    Weakness(
        "CVE-2026-81934",
        "whoever reaches a port with TLS can run code in the server, without a login",
        "6.2.24 7.2.16 7.4.11 8.2.9 8.4.6 8.6.6 8.8.2 8.10.1",
    ),
    Weakness("CVE-2026-66373", _ADMINISTRATOR, "6.2.24 7.2.15 7.4.10 8.2.9 8.4.5 8.6.6 8.8.0"),
    Weakness("CVE-2026-25243", _ADMINISTRATOR, "6.2.22 7.2.14 7.4.9 8.2.6 8.4.3 8.6.3"),
    Weakness("CVE-2026-23479", _LOGIN, "7.2.14 7.4.9 8.2.6 8.4.3 8.6.3", since=(7, 2)),
    Weakness("CVE-2025-62507", _LOGIN, "8.2.3", since=(8, 2)),
    Weakness("CVE-2025-49844", _SCRIPT, _LUA_2025),
    Weakness("CVE-2025-46817", _SCRIPT, _LUA_2025),
    Weakness("CVE-2025-46818", "a script can run with the rights of another login", _LUA_2025),
    Weakness("CVE-2025-46819", "a script can read the server's memory, or stop it", _LUA_2025),
    Weakness("CVE-2025-32023", _LOGIN, "6.2.19 7.2.10 7.4.5 8.0.3"),
    Weakness("CVE-2025-48367", "whoever reaches the port can hinder others", "6.2.19 7.2.10 7.4.5 8.0.3"),
    Weakness("CVE-2025-21605", "whoever reaches the port can fill the memory", "6.2.18 7.2.8 7.4.3"),
    Weakness("CVE-2024-46981", _SCRIPT, "6.2.17 7.2.7 7.4.2"),
    Weakness("CVE-2024-31449", _SCRIPT, "6.2.16 7.2.6 7.4.1"),
    Weakness("CVE-2024-31228", _STOP, "6.2.16 7.2.6 7.4.1"),
)


def weaknesses_of(version: str) -> list[Weakness]:
    """The weaknesses of a version such as `6.2.14`, by its number alone."""
    return [one for one in WEAKNESSES if one.is_in(_numbers(version))]


def known(installation: Installation) -> Iterator[Finding]:
    info = installation.running_redis().info("server")
    version = str(info["redis_version"])
    found = [] if info.get("server_name", "redis") != "redis" else weaknesses_of(version)
    if found:
        newest = max((one.mended for one in found), key=lambda mended: max(map(_numbers, mended.split())))
        yield Finding(
            f"by its number, Redis {version} has known weaknesses, {', '.join(one.cve for one in found)}: "
            f"{'; '.join(dict.fromkeys(one.who for one in found))}",
            f"use {' or '.join(newest.split())}, or a package whose maker has mended them without a new number. The server "
            "that `chorale up` starts listens on the loopback address alone, with a password that only you can read",
            is_remark=True,
        )


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
