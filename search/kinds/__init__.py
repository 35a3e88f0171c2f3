"""The kinds of stores that Chorale ships: each file declares its `KIND`, which `wiring.pipeline` finds.

They stand outside of the stores' own folders, because importing a store's folder may import its client.
"""
