"""The audit trail from the command line: its database, and the view of a request."""
