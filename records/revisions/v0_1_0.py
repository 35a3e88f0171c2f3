"""The first schema: the audit trail, jobs, keys, rules, changes by the console, and feedback."""

revision = "0.1.0"
down_revision = None


def upgrade() -> None:
    """No database is older: a new one gets the declared tables (`models.schema`)."""
