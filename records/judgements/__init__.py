"""What users, judges and language models say of hits: events, their rows in the audit trail's database, and the grades of hits.

`feedback` has the words, `store` the rows, `pooling` the grades, `language_model` has a model give some, `files` has the forms of
export and import.
"""
