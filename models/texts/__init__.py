"""How texts are read: as a person reads them, and the identifiers in them."""
