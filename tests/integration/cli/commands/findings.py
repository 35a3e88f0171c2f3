"""What the checks of `chorale doctor` find in an installation."""

from __future__ import annotations

from cli.commands.doctor import Examined, checks, examine
from cli.doctor.finding import Finding
from cli.installation import Installation


def examined(installation: Installation, *names: str) -> dict[str, Examined]:
    """The results of the checks with these names, or of all checks."""
    chosen = {name: checks()[name] for name in names or checks()}
    return {one.name: one for one in examine(installation, chosen)}


def findings(installation: Installation, *names: str) -> list[Finding]:
    """Each finding says what to do, and none of them shows a password."""
    results = examined(installation, *names).values()
    assert [one.skipped for one in results if one.skipped] == []
    every = [finding for one in results for finding in one.findings]
    assert all(one.mend for one in every)
    assert "opensesame" not in f"{every}"
    return every


def the_finding(installation: Installation, name: str) -> Finding:
    (finding,) = findings(installation, name)
    return finding
