"""deploy/kubernetes, read: the same services as docker-compose.yml, and a scaler for each queue."""

from __future__ import annotations

import base64
import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from config.pipeline import load_pipeline
from config.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
RESOURCES: list[dict[str, Any]] = [
    resource
    for file in KUSTOMIZATION["resources"]
    for resource in yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8"))
    if resource
]
PIPELINE = load_pipeline(FOLDER / "pipeline.toml")
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="without kubectl: what is there is read, unrendered"
)


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in RESOURCES if one["kind"] == kind}


DEPLOYMENTS = of_kind("Deployment")
PODS = {name: one["spec"]["template"]["spec"] for name, one in DEPLOYMENTS.items()}
CONTAINERS: dict[str, dict[str, Any]] = {name: pod["containers"][0] for name, pod in PODS.items()}
QUEUES = {f"chorale-{queue.removeprefix('chorale.')}": queue for queue in PIPELINE.queues}
OTHERS = {"chorale-sweeper", "chorale-flower", "chorale-queue-figures"}
INDEX = "chorale-index"
BEATING = sorted(QUEUES.keys() | {"chorale-sweeper"})


BUILT_IN = [one for one in RESOURCES if not one["apiVersion"].startswith("keda.sh/")]
VERSIONS = (kubernetes_validate.utils.all_versions()[0], kubernetes_validate.latest_version())
"""Of Kubernetes, the oldest and the newest whose schemas are here; those of KEDA are not, and its kinds are read below."""


def titled(resource: dict[str, Any]) -> str:
    return f"{resource['kind']} {resource['metadata']['name']}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resource", BUILT_IN, ids=titled)
def test_a_resource_is_what_kubernetes_own_schema_asks_for(resource: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(resource, version, strict=True)


def test_what_the_schema_does_not_know_is_refused() -> None:
    wrong = copy.deepcopy(DEPLOYMENTS["chorale-bm25"])
    wrong["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="redinessProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_queue_has_a_worker_and_there_is_a_sweeper_and_flower() -> None:
    assert DEPLOYMENTS.keys() == QUEUES.keys() | OTHERS
    for name, queue in QUEUES.items():
        words = ["python", "-m", "cli", "worker", queue, "--name", "$(POD_NAME)"]
        assert CONTAINERS[name]["command"] == words


def test_the_services_of_ours_are_those_of_compose() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    beating = {name for name, one in compose.items() if "cli.healthy" in str(one.get("healthcheck"))}
    assert {f"chorale-{name}" for name in beating} == DEPLOYMENTS.keys() - {
        "chorale-flower",
        "chorale-queue-figures",
    }


def test_the_pipeline_is_the_clustered_one() -> None:
    assert (FOLDER / "pipeline.toml").read_text("utf-8") == (ROOT / "config/clustered.toml").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_no_container_is_root_or_can_write_its_image(name: str) -> None:
    pod, container = PODS[name], CONTAINERS[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        "/var/lib/chorale",
        "/tmp",
        "/etc/chorale",
        "/etc/chorale-certificates",
    }


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_a_deployment_selects_its_own_pods_and_asks_whether_they_live(name: str) -> None:
    spec, container = DEPLOYMENTS[name]["spec"], CONTAINERS[name]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    labels = [str(other["spec"]["selector"]) for other in DEPLOYMENTS.values()]
    assert labels.count(str(spec["selector"])) == 1
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()


def asks(probe: dict[str, Any]) -> Any:
    """What a probe does, without how often."""
    return next(value for key, value in probe.items() if key in ("exec", "httpGet", "tcpSocket"))


@pytest.mark.parametrize("name", BEATING)
def test_a_worker_is_started_anew_when_it_does_not_live_and_not_when_it_is_not_ready(name: str) -> None:
    container = CONTAINERS[name]
    for probe, question in (("startup", "alive"), ("liveness", "alive"), ("readiness", "ready")):
        command = ["sh", "-c", f'exec python -m cli.healthy {question} "$POD_NAME"']
        assert asks(container[f"{probe}Probe"]) == {"command": command}


def test_whoever_answers_over_http_is_not_started_anew_because_the_broker_is_away() -> None:
    figures, flower = CONTAINERS["chorale-queue-figures"], CONTAINERS["chorale-flower"]
    for probe in ("startupProbe", "livenessProbe"):
        assert asks(figures[probe]) == {"port": 9100}
        assert asks(flower[probe]) == {"path": "/healthcheck", "port": 5555}
    assert asks(figures["readinessProbe"]) == {"path": "/chorale.retrieve", "port": 9100}


def test_no_pod_reaches_flower_which_shows_its_metrics_without_a_login() -> None:
    (policy,) = of_kind("NetworkPolicy").values()
    labels = DEPLOYMENTS["chorale-flower"]["spec"]["selector"]["matchLabels"]
    assert policy["spec"] == {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_kubernetes_adds_no_variables_that_look_like_settings(name: str) -> None:
    # It would: CHORALE_FLOWER_SERVICE_HOST and its like, for each Service.
    assert PODS[name]["enableServiceLinks"] is False


@pytest.mark.parametrize("name", sorted(PODS))
def test_no_pod_keeps_anything(name: str) -> None:
    (home,) = (one for one in PODS[name]["volumes"] if one["name"] == "home")
    assert home == {"name": "home", "emptyDir": {}}
    assert of_kind("PersistentVolumeClaim") == {}
    # So that a new one can start beside the old one.
    assert "strategy" not in DEPLOYMENTS[name]["spec"]


def test_a_namespace_is_written_by_one_so_that_workers_of_indexing_are_not_scaled() -> None:
    assert INDEX not in of_kind("ScaledObject")


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_every_variable_is_a_setting_or_a_secret_and_no_secret_stands_here(name: str) -> None:
    variables = {one["name"]: one for one in CONTAINERS[name]["env"]}
    ours = {variable for variable in variables if variable.startswith("CHORALE_")}
    for literal in KUSTOMIZATION["configMapGenerator"][1]["literals"]:
        ours.add(literal.partition("=")[0])
    assert ours <= {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    assert all("value" not in one for one in variables.values())
    role = {"chorale-sweeper": "sweeper", "chorale-flower": "flower"}.get(name, "worker")
    key = variables["CHORALE_REDIS_URL"]["valueFrom"]["secretKeyRef"]["key"]
    assert key == f"redis-url-{role}"


@pytest.mark.parametrize("name", sorted(DEPLOYMENTS))
def test_there_is_a_place_for_further_secrets_and_certificates_which_need_not_be_there(name: str) -> None:
    *_, last = CONTAINERS[name]["envFrom"]
    # The last one wins.
    assert last == {"secretRef": {"name": "chorale-more", "optional": True}}
    (files,) = (one["secret"] for one in PODS[name]["volumes"] if one["name"] == "certificates")
    assert files == {"secretName": "chorale-certificates", "optional": True}
    (mount,) = (one for one in CONTAINERS[name]["volumeMounts"] if one["name"] == "certificates")
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/chorale-certificates", True)


def test_every_key_of_the_secret_is_listed_where_it_is_to_be_made() -> None:
    asked = {
        one["valueFrom"]["secretKeyRef"]["key"]
        for container in CONTAINERS.values()
        for one in container["env"]
        if "secretKeyRef" in one["valueFrom"]
    }
    head = (FOLDER / "services.yaml").read_text("utf-8").partition("---")[0]
    keys = head.replace("\n# ", " ").partition("Secret chorale:")[2].partition("\n#")[0]
    listed = re.findall(r"[a-z]+(?:-[a-z0-9]+)+", keys)
    assert set(listed) == asked
    assert set(re.findall(r"^    ([a-z0-9-]+)=", PAGE, re.MULTILINE)) == asked
    # A word of a command line is seen by everybody on the machine, and kept by the shell.
    assert "--from-literal" not in PAGE


@needs_kubectl
def test_the_secrets_are_made_by_the_commands_of_the_page(tmp_path: Path) -> None:
    lines = "\n".join(re.findall(r"^    ([a-z0-9-]+=.*)$", PAGE, re.MULTILINE))
    (tmp_path / "chorale.secret").write_text(lines)
    (tmp_path / "more.secret").write_text("CHORALE_BROKER_URL=amqps://chorale:a=b@rabbitmq:5671/chorale\n")
    (tmp_path / "our-ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    commands = re.findall(r"^    kubectl (create secret .*)$", PAGE, re.MULTILINE)
    made = {}
    for command in commands:
        words = ["kubectl", *command.split(), "--dry-run=client", "--output=yaml"]
        said = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
        secret = yaml.safe_load(said)
        assert secret["metadata"]["namespace"] == KUSTOMIZATION["namespace"]
        made[secret["metadata"]["name"]] = {
            key: base64.b64decode(value).decode() for key, value in secret["data"].items()
        }
    assert made.keys() == {"chorale", "chorale-more", "chorale-certificates"}
    assert made["chorale"]["redis-url-worker"].startswith("rediss://worker:")
    assert made["chorale-more"] == {"CHORALE_BROKER_URL": "amqps://chorale:a=b@rabbitmq:5671/chorale"}
    assert made["chorale-certificates"].keys() == {"our-ca.crt"}


@pytest.mark.parametrize("name", sorted(QUEUES.keys() - {INDEX}))
def test_workers_of_a_queue_are_scaled_by_how_many_wait_and_for_how_long(name: str) -> None:
    scaler = of_kind("ScaledObject")[name]["spec"]
    assert scaler["scaleTargetRef"] == {"name": name}
    assert 1 <= scaler["minReplicaCount"] < scaler["maxReplicaCount"]
    # KEDA's cooldownPeriod counts before the step from one to none alone.
    behaviour = scaler["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] < 300
    asked = {trigger["metadata"]["valueLocation"]: trigger for trigger in scaler["triggers"]}
    # Messages are shared out among the workers; how long the oldest has waited is not.
    assert {figure: trigger.get("metricType") for figure, trigger in asked.items()} == {
        "length": None,
        "age_s": "Value",
    }
    for trigger in asked.values():
        assert trigger["type"] == "metrics-api"
        assert trigger["metadata"]["url"] == url_of(name, KUSTOMIZATION["namespace"])
        assert float(trigger["metadata"]["targetValue"]) > 0


def url_of(name: str, namespace: str) -> str:
    """Of the figures of its queue, as KEDA can ask from any namespace."""
    return f"http://chorale-queue-figures.{namespace}.svc:9100/{QUEUES[name]}"


def test_how_many_workers_there_are_is_said_where_no_scaler_says_it() -> None:
    said = {name for name, one in DEPLOYMENTS.items() if "replicas" in one["spec"]}
    assert said == DEPLOYMENTS.keys() - of_kind("ScaledObject").keys()


def test_a_service_finds_pods_that_there_are() -> None:
    labels = [one["spec"]["selector"]["matchLabels"] for one in DEPLOYMENTS.values()]
    services = of_kind("Service")
    assert services.keys() == {"chorale-flower", "chorale-queue-figures"}
    assert all(service["spec"]["selector"] in labels for service in services.values())


def rendered(folder: Path) -> list[dict[str, Any]]:
    said = subprocess.run(
        ["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True
    ).stdout
    return list(yaml.safe_load_all(said))


@needs_kubectl
def test_kustomize_renders_all_of_it() -> None:
    resources = rendered(FOLDER)
    kinds = [one["kind"] for one in resources]
    assert kinds.count("ConfigMap") == 2
    assert len(kinds) == len(RESOURCES) + 2
    for one in resources:
        if one["kind"] != "ScaledObject":
            kubernetes_validate.validate(one, VERSIONS[-1], strict=True)


@needs_kubectl
def test_another_namespace_is_written_in_one_place(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "kustomization.yaml"
    before = f"namespace: {KUSTOMIZATION['namespace']}"
    file.write_text(file.read_text("utf-8").replace(before, "namespace: search-2"))
    resources = rendered(tmp_path)
    assert {one["metadata"]["namespace"] for one in resources} == {"search-2"}
    for scaler in (one for one in resources if one["kind"] == "ScaledObject"):
        urls = {trigger["metadata"]["url"] for trigger in scaler["spec"]["triggers"]}
        assert urls == {url_of(scaler["metadata"]["name"], "search-2")}
