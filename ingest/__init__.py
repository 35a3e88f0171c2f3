"""Reads files into documents and splits them into passages; knows no store, no model and no broker."""
