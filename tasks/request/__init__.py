"""One request, step by step: retrieve, planning, fanout, search, fuse, ending."""
