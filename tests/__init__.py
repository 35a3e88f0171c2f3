"""The specification: `unit` mirrors the tree, `contracts` are promises that several implementations share."""
