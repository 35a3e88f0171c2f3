"""Certificates for tests of TLS."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """Of 127.0.0.1, signed by itself, so it is its own authority too; PEM files."""

    file: Path
    key_file: Path

    @classmethod
    def make(cls, folder: Path, name: str = "server") -> Certificate:
        made = cls(folder / f"{name}.crt", folder / f"{name}.key")
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ]
        command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(made.key_file), "-out", str(made.file)]
        subprocess.run(command, check=True, capture_output=True)
        return made
