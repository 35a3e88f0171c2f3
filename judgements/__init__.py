"""What users and judges say of hits: events, their rows in the database of the audit trail, and the grades that follow from them.

`feedback` has the words, `store` the rows, `pooling` the grades, `files` the forms of export and import.
"""
