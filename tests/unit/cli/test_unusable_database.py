"""What `chorale doctor` and `chorale status` advise where the documents' database cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.doctor.corpus import unusable_database
from cli.installation import Installation
from config.settings import Settings
from search.documents.database import DatabaseUnavailable

SESSION = "give CHORALE_DOCUMENTS_URL an address without pgbouncer, or pgbouncer's session mode"


@pytest.mark.parametrize(
    ("why", "what", "mend"),
    [
        (
            "Connection refused",
            "Connection refused",
            "start it, or correct CHORALE_DATABASE_URL (user, password, host, database), for every process",
        ),
        (
            "permission denied for schema public",
            "permission denied for schema public",
            "let the user of CHORALE_DATABASE_URL own the database, or grant what is denied",
        ),
        (f"prepared statement is there; {SESSION}", "prepared statement is there", SESSION),
    ],
)
def test_the_advice_fits_the_reason(tmp_path: Path, why: str, what: str, mend: str) -> None:
    installation = Installation(Settings(home=tmp_path, database_url="postgresql://app:p@host/docs"), None)
    finding = unusable_database(installation, DatabaseUnavailable(f"it cannot be used: {why}"))
    assert (finding.what, finding.mend) == (f"it cannot be used: {what}", mend)
