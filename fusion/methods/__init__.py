"""The fusion methods that Chorale ships: each file declares its `METHOD`, which `assembly.kinds` finds."""
