"""The targets that callbacks may have here (`on_end`)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from config.settings import Settings
from models.errors import WrongDeclaration

NAT64 = ip_network("64:ff9b::/96")
"""Addresses that a gateway turns into the IPv4 address of their last four bytes (RFC 6052)."""
UNICAST = ip_network("2000::/3")
"""All other addresses of IPv6 are reserved, of a network's own, or stand for IPv4 addresses in a way of the network's own (RFC 8215)."""
OF_CLOUDS = (ip_network("192.0.0.0/24"), ip_network("168.63.129.16/32"))
"""Oracle's metadata, in a block for protocols that Python 3.11 knows in part, and Azure's service for its machines."""


def check_on_end(on_end: Mapping[str, str] | None, settings: Settings) -> None:
    """Raises WrongDeclaration if callbacks to this `on_end` target are not allowed."""
    if on_end is None:
        return
    if "url" in on_end:
        if not settings.webhook_secret:
            raise WrongDeclaration("on_end: a webhook needs a secret; set CHORALE_WEBHOOK_SECRET")
        _check_url(on_end["url"], settings)
    if "queue" in on_end:
        check_queue(on_end["queue"], settings)


def _check_url(url: str, settings: Settings) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in settings.webhook_hosts:
        return
    if parts.scheme != "https":
        raise WrongDeclaration(
            "on_end: the address begins with https://, unless CHORALE_WEBHOOK_HOSTS has its host"
        )
    try:
        is_allowed = is_public(host)
    except ValueError:  # a name; its addresses are checked before each call
        is_allowed = host != "localhost"
    if not is_allowed:
        raise WrongDeclaration(f"on_end: {host} is no public address, and not in CHORALE_WEBHOOK_HOSTS")


def is_public(address: str) -> bool:
    """Whether an address belongs to the internet.  Addresses of this machine, of private networks and of links do not, nor do
    IPv6 addresses that stand for such an IPv4 address.  Raises ValueError for a name."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in NAT64:
            inner = IPv4Address(ip.packed[-4:])
        if inner and not is_public(str(inner)):
            return False
        if not ip.ipv4_mapped:
            return ip.is_global and (ip in UNICAST or ip in NAT64)
        ip = ip.ipv4_mapped
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in OF_CLOUDS)


def check_queue(queue: str, settings: Settings, *, named_by: str = "on_end") -> None:
    """Raises WrongDeclaration if this installation sends no tasks to the queue."""
    if queue not in settings.on_end_queues:
        allowed = ", ".join(settings.on_end_queues) or "none"
        raise WrongDeclaration(
            f"{named_by}: the queue {queue!r} is not in CHORALE_ON_END_QUEUES; there are: {allowed}"
        )
