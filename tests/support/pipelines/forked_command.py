"""`python -I -S forked_command.py SOCKET MODULE ARGUMENT...`: the test that listens at the socket runs the module in a fork, which
has the streams, the folder and the environment of this process, and whose exit code this process ends with."""

import json
import os
import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(sys.argv[1])
        call = {"argv": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109  # pathlib takes long to import
        message = json.dumps(call).encode()
        socket.send_fds(asking, [len(message).to_bytes(4, "big")], [1, 2, 0])
        asking.sendall(message)
        code = int(asking.recv(8) or 1)
        sys.exit(code if code >= 0 else 128 - code)
