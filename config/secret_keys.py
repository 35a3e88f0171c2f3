"""The secrets that sign webhooks: one of the installation, and one derived from it for each key of the HTTP API.

A receiver that has the secret of one key cannot sign for another.  The settings may have two secrets, so that receivers
change to the new one in their own time: both sign.
"""

from __future__ import annotations

import hmac
import os
import secrets
from base64 import b64decode, b64encode
from hashlib import sha256

from config.settings import Settings

PREFIX = "whsec_"


def signing_keys(settings: Settings, key_id: str | None) -> list[bytes]:
    """What signs the webhooks of a key's jobs, the newest first; for None, those of the installation's own jobs."""
    secrets = [_bytes_of(secret) for secret in settings.webhook_secrets]
    if key_id is None:
        return secrets
    return [hmac.new(secret, f"webhooks of {key_id}".encode(), sha256).digest() for secret in secrets]


def secret_of_key(settings: Settings, key_id: str) -> str | None:
    """What the receiver of a key's webhooks verifies them with; None without `CHORALE_WEBHOOK_SECRET`."""
    keys = signing_keys(settings, key_id)
    return PREFIX + b64encode(keys[0]).decode() if keys else None


def _bytes_of(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX)) if secret.startswith(PREFIX) else secret.encode()


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
