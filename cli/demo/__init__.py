"""The demo: its installation, its questions, its screens, and what each screen claims."""
