"""The checks of `chorale doctor`, by subject.  Each yields findings with how to mend them, and changes nothing."""
