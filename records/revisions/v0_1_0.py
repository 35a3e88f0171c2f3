"""The first schema: the audit trail, jobs, keys, rules, changes by the console, and feedback."""

revision = "0.1.0"
down_revision = None


def upgrade() -> None:
    """This revision changes nothing: no database is older, and a new database gets the declared tables (`models.tables.schema`)."""
