"""The pictures of README and of the pages.  A script draws the moving one: `python -m docs.drawings.chord`."""
