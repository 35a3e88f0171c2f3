"""One request, step by step: retrieve (accept, plan), fanout, batch and search (branches), finishing (the end).

`planning` makes its plan, and `composing` its answer.  Knows no store or model by name, and no private name of Celery.
"""
