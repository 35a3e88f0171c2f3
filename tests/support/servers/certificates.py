"""Certificates for tests of TLS."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate, which is its own authority; PEM files."""

    file: Path
    key_file: Path

    @classmethod
    def make(cls, folder: Path, name: str = "server", *, of: str = "IP:127.0.0.1") -> Certificate:
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
        command += [
            "-days",
            "2",
            "-subj",
            f"/CN={of.partition(':')[2].partition(',')[0]}",
            "-addext",
            f"subjectAltName={of}",
        ]
        command += ["-keyout", str(made.key_file), "-out", str(made.file)]
        subprocess.run(command, check=True, capture_output=True)
        return made
