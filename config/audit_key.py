"""The key of the hashes that stand in the audit tables in place of texts."""

from __future__ import annotations

import os
import secrets

from config.settings import Settings

FILE = "audit_key"


def audit_key(settings: Settings) -> bytes:
    """The key of the settings, else the key in the home, which the first call makes.

    Without the key, nobody can find a question by hashing guesses.
    """
    if settings.audit_hash_key:
        return settings.audit_hash_key.encode()
    file = settings.home / FILE
    if not file.exists():
        draft = file.with_name(f"{FILE}.{secrets.token_hex(8)}")
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
            out.write(secrets.token_hex(32))
        try:
            # A hard link, unlike a renaming, does not replace a key that another process has made meanwhile.
            file.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return file.read_text().encode()
