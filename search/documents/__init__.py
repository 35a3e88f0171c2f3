"""The documents of an installation, in SQL: reading them, which the embedded store does with the same statements, and
writing them together with every engine that derives from them.  Must not know which products the engines are."""
