"""The demo: its installation, its corpus, its questions, and its screens with what each claims."""
