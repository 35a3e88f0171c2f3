"""The section on Kubernetes in docs/operate.md: its Secrets and commands fit the chart."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from assembly.pipeline import load_pipeline
from tests.acceptance.deploy.chart import CHART, ROOT, VERSION, containers, of_kind

PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")


def keys_of_the_page(file: str) -> dict[str, str]:
    """Returns the variables that the page writes into that file."""
    after = PAGE.partition(f"`{file}`")[2].partition("\n\n")[2].partition("\n\n")[0]
    return dict(line.split("=", 1) for line in after.splitlines() if not line.startswith("```"))


def test_the_page_lists_every_key_of_the_secrets_and_writes_none_on_a_command_line() -> None:
    variables = [
        variable["valueFrom"] for container in containers().values() for variable in container["env"]
    ]
    keys = {source["secretKeyRef"]["key"] for source in variables if "secretKeyRef" in source}
    assert keys_of_the_page("chorale.secret").keys() == keys
    stores = load_pipeline(CHART / "pipeline.toml").stores.values()
    named_by_stores = {value for one in stores for key, value in one.options.items() if key.endswith("_env")}
    assert named_by_stores <= keys_of_the_page("more.secret").keys()
    # Every user of the machine sees the words of a command line, and the shell keeps them.
    assert "--from-literal" not in PAGE


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="without kubectl: its commands are read, not run")
def test_the_commands_of_the_page_make_the_secrets_that_the_chart_names(tmp_path: Path) -> None:
    files = {file: keys_of_the_page(file) for file in ("chorale.secret", "more.secret")}
    for file, keys in files.items():
        (tmp_path / file).write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    (tmp_path / "our-ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    made = {}
    for command in re.findall(r"^kubectl (create secret .*)$", PAGE, re.MULTILINE):
        words = ["kubectl", *command.split(), "--dry-run=client", "--output=yaml"]
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path)
        secret = yaml.safe_load(done.stdout)
        made[secret["metadata"]["name"]] = {
            key: base64.b64decode(value).decode() for key, value in secret["data"].items()
        }
    assert made == {
        "chorale": files["chorale.secret"],
        "chorale-more": files["more.secret"],
        "chorale-certificates": {"our-ca.crt": "-----BEGIN CERTIFICATE-----\n"},
    }


def test_the_commands_of_the_page_name_an_image_and_services_that_exist() -> None:
    (image,) = re.findall(r"^docker build --tag (\S+) \.$", PAGE, re.MULTILINE)
    assert image.endswith(f":{VERSION}")
    assert f"docker push {image}" in PAGE
    assert f"image: {{ repository: {image.rpartition(':')[0]} }}" in PAGE
    assert "\nhelm upgrade --install chorale deploy/helm --namespace=chorale " in PAGE
    (forward,) = re.findall(r"service/(\S+) 5555$", PAGE, re.MULTILINE)
    assert forward in of_kind("Service")
    (deployment, command) = re.findall(r"^kubectl exec .* deployment/(\S+) -- (.*)$", PAGE, re.MULTILINE)[0]
    assert command.startswith("python -m cli keys create ")
    assert deployment in of_kind("Deployment")
