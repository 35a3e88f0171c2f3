"""Chat models that write hypothetical documents and rewrite questions."""
