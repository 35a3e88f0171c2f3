"""A graph in Neo4j, which Chorale only asks."""
