"""What the installation keeps in its own database: the audit trail, jobs, judgements, rules and keys."""
