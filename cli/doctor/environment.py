"""The settings."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cli.doctor.finding import Finding
from cli.installation import Installation
from config.settings import unknown_variables


def variables(_: Installation) -> Iterator[Finding]:
    for name, meant in unknown_variables(os.environ).items():
        better = f"set {meant} instead" if meant else "docs/reference/settings.md lists all settings"
        yield Finding(f"the variable {name} is no setting and has no effect", f"unset it; {better}")
