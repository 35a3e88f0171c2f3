"""Who may read the files of the installation."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from audit.database import trail_file
from cli.doctor.finding import Finding
from cli.installation import Installation
from search.documents.file_reading import file_of


def private(installation: Installation) -> Iterator[Finding]:
    """The home, and SQLite files outside of it."""
    settings = installation.settings
    kept = [settings.home]
    for file in (trail_file(settings.audit_database_url), file_of(settings.documents_database_url)):
        # A file in the home is protected by the mode of the home itself.
        if file is not None and settings.home not in file.absolute().parents:
            kept.append(file)
    for path in dict.fromkeys(kept):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if found.st_uid not in (os.geteuid(), 0):
            yield Finding(
                f"{path} belongs to the user {found.st_uid}, who can read and replace everything in it",
                f"chown -R {os.geteuid()} {path}, or use a folder of your own",
            )
        # A folder that a group shares on purpose has the setgid bit.  A folder of root is a volume mounted for this user.
        is_shared = found.st_mode & stat.S_ISGID
        if found.st_uid == os.geteuid() and found.st_mode & (0o007 if is_shared else 0o077):
            yield Finding(
                f"other users of this machine may use {path} (its mode is {stat.S_IMODE(found.st_mode):04o})",
                f"chmod -R {'o=' if is_shared else 'go='} {path}",
            )
        for above in path.resolve().parents:
            if above.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                yield Finding(
                    f"everybody on this machine may write to {above}, and so put another folder in the place of {path}",
                    f"chmod o-w {above}",
                )
