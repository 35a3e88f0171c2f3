"""The demo: its installation, its corpus (the handbook of a ferry company that does not exist), and its scenes."""
