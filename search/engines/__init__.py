"""One folder for each engine that Chorale can search; `search/kinds.py` lists them."""
