"""The kinds of branches that Chorale ships: each file declares its `KIND`, which `assembly.kinds` finds."""
