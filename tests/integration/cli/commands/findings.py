"""What the checks of `chorale doctor` find in an installation."""

from __future__ import annotations

from cli.commands.doctor import Examined, checks, examine
from cli.installation import Installation
from monitoring.checks import Finding


def examined(installation: Installation, *names: str) -> dict[str, Examined]:
    """The results of the checks with these names, or of all checks."""
    chosen = {name: checks()[name] for name in names or checks()}
    return {result.name: result for result in examine(installation, chosen)}


def findings(installation: Installation, *names: str) -> list[Finding]:
    """Each finding says what to do, and none of them shows a password."""
    results = examined(installation, *names).values()
    assert [result.skipped for result in results if result.skipped] == []
    every = [finding for result in results for finding in result.findings]
    assert all(finding.mend for finding in every)
    assert "opensesame" not in f"{every}"
    return every


def the_finding(installation: Installation, name: str) -> Finding:
    (finding,) = findings(installation, name)
    return finding
