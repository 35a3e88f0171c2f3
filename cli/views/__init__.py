"""Results of commands on a terminal."""
