"""Answers, audit rows and progress on a terminal."""
