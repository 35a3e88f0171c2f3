"""The table of fusion methods: add one by writing its file and naming it here."""

from __future__ import annotations

from fusion.protocol import Method
from fusion.rrf import RRF
from fusion.rrf_grouped import RRF_GROUPED
from models.errors import WrongDeclaration

METHODS: dict[str, Method] = {method.name: method for method in (RRF, RRF_GROUPED)}


def method_named(name: str) -> Method:
    """Raises WrongDeclaration, which lists the table."""
    try:
        return METHODS[name]
    except KeyError:
        raise WrongDeclaration(f"no fusion method {name!r}; there are: {', '.join(METHODS)}") from None
