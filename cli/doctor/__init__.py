"""What `chorale doctor` looks at, by subject: each check yields what it finds wrong and how to mend it, and changes nothing."""
