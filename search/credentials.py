"""Keys and passwords that go into a header of each request."""

from __future__ import annotations

from models.errors import NotConfigured


def usable_key(owner: str, variable: str | None, key: str | None) -> str | None:
    """The key that the variable holds, without the white space around it: files end in a newline.  None where no
    variable is declared.

    Raises NotConfigured, which names the variable and not the key, where it is missing or no header can carry it.
    """
    if variable is None:
        return None
    key = (key or "").strip()
    if not key:
        raise NotConfigured(f"{owner} needs a key or password: the variable {variable} is not set")
    # Clients would quote it in their errors.
    if not (key.isascii() and key.isprintable()):
        raise NotConfigured(f"{owner}: the variable {variable} holds characters that no header can carry")
    return key
