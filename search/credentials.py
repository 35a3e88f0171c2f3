"""Keys and passwords that are sent in a header of each request."""

from __future__ import annotations

from models.errors import NotConfigured


def usable_key(owner: str, variable: str | None, key: str | None) -> str | None:
    """The key in the variable, without surrounding white space (files end in a newline); None if no variable is
    declared.

    Raises NotConfigured naming the variable, never the key, if the key is missing or not allowed in a header.
    """
    if variable is None:
        return None
    key = (key or "").strip()
    if not key:
        raise NotConfigured(f"{owner} needs a key or password: the variable {variable} is not set")
    # Clients would quote such a key in their errors.
    if not (key.isascii() and key.isprintable()):
        raise NotConfigured(f"{owner}: the variable {variable} holds characters that no header can carry")
    return key
