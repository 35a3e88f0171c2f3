"""One reader a file format; each turns a file into records and knows nothing of sources and document ids."""
