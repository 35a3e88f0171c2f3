"""What an operator types: one command a file, and the processes that `chorale up` looks after.

It composes everything below it, and nothing below it knows that there is a terminal.
"""
