"""The command line: one file for each command, and the processes that `chorale up` looks after.

Only this package knows that there is a terminal.
"""
