"""All stores of a clustered installation written as one, from a table of documents in SQL that is the truth."""
