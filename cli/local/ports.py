"""Addresses that servers of `chorale up` listen on."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from models.errors import ServiceError, WrongDeclaration


class PortInUse(ServiceError):
    """A server cannot listen on its address, usually because another program listens there."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`PORT` on this machine's loopback address, `HOST:PORT` or `[IPv6]:PORT`; raises WrongDeclaration."""
        host, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise WrongDeclaration(f"{text!r} is no address such as 127.0.0.1:8000")
        return cls(host.strip("[]") or "127.0.0.1", int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def check_free(self, program: str, option: str) -> None:
        """Raises PortInUse, which names the program that cannot listen and the option with another port."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            socket.create_server((self.host, self.port), family=family).close()
        except OSError as error:
            raise PortInUse(
                f"{program} cannot listen on port {self.port} ({error.strerror}); choose another with {option}"
            ) from None
