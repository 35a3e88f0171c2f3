"""The commands of `chorale`, one file each."""
