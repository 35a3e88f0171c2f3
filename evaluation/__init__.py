"""How good answers are: by judged questions (`judged`), by the requests that the audit trail has (`recorded`), and which values
would be better (`tuning`).

Must not contain anything that answering a request needs.
"""
