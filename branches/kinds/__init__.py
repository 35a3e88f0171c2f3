"""The kinds of branches that Chorale ships, one file each."""
