"""deploy/helm, rendered: the same services as docker-compose.yml, a worker and a scaler for each queue."""

from __future__ import annotations

import base64
import copy
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from assembly.pipeline import load_pipeline
from config.settings import Settings
from tests.support.servers.services import missing

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
NAMESPACE = "search"
OTHERS = {"chorale-sweeper", "chorale-flower", "chorale-http", "chorale-queue-figures"}
INDEX = "chorale-index"
HF_HOME = "/var/lib/chorale/models"
"""The value in the Dockerfile."""

VERSIONS = (kubernetes_validate.utils.all_versions()[0], kubernetes_validate.latest_version())
"""The oldest and the newest version of Kubernetes whose schemas are installed."""


def named(queue: str) -> str:
    return f"chorale-{queue.removeprefix('chorale.').replace('_', '-')}"


QUEUES = {named(queue): queue for queue in load_pipeline(CHART / "pipeline.toml").queues}
BEATING = sorted(QUEUES.keys() | {"chorale-sweeper"})
DEPLOYED = sorted(QUEUES.keys() | OTHERS)
SCALED = sorted(QUEUES.keys() - {INDEX})


def helm(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    if (program := shutil.which("helm", path=folders)) is None:
        missing("without helm: `make dev` brings it to Linux on x86-64 alone")
    return subprocess.run([str(program), *words], input=given, capture_output=True, text=True)


@cache
def rendered(*options: str) -> tuple[dict[str, Any], ...]:
    said = helm("template", "chorale", str(CHART), f"--namespace={NAMESPACE}", *options)
    assert said.returncode == 0, said.stderr
    return tuple(one for one in yaml.safe_load_all(said.stdout) if one)


def of_kind(kind: str, *options: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in rendered(*options) if one["kind"] == kind}


def pod(name: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = of_kind("Deployment", *options)[name]["spec"]["template"]["spec"]
    return found


def container(name: str, *options: str) -> dict[str, Any]:
    (found,) = pod(name, *options)["containers"]
    return dict(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_resource_matches_the_schema_of_kubernetes(version: str) -> None:
    built_in = [one for one in rendered() if not one["apiVersion"].startswith("keda.sh/")]
    assert len(built_in) >= len(QUEUES) + len(OTHERS)
    for one in built_in:
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schema_refuses_an_unknown_field() -> None:
    wrong = copy.deepcopy(of_kind("Deployment")["chorale-bm25"])
    wrong["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="redinessProbe"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def strict(schema: Any) -> Any:
    """Returns the schema changed so that it refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | {key: strict(value) for key, value in schema.items()}


def test_every_scaler_matches_the_schema_of_keda() -> None:
    file = os.environ.get("CHORALE_TEST_KEDA_SCHEMA")
    if file is None:
        pytest.skip("CHORALE_TEST_KEDA_SCHEMA names no keda.sh_scaledobjects.yaml: its fields are read below")
    (version,) = yaml.safe_load(Path(file).read_text("utf-8"))["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    # KEDA's schema says only that these are objects.
    schema["properties"]["metadata"] = {"type": "object"}
    for scaler in of_kind("ScaledObject").values():
        jsonschema.validate(scaler, schema)
    misspelt = copy.deepcopy(scaler)
    misspelt["spec"]["maxReplicasCount"] = 3
    with pytest.raises(jsonschema.ValidationError, match="maxReplicasCount"):
        jsonschema.validate(misspelt, schema)


def test_every_queue_has_a_worker_and_there_is_a_sweeper_and_flower() -> None:
    assert of_kind("Deployment").keys() == QUEUES.keys() | OTHERS
    for name, queue in QUEUES.items():
        words = ["python", "-m", "cli", "worker", queue, "--name", "$(POD_NAME)"]
        assert container(name)["command"] == words


def test_the_services_of_ours_are_those_of_compose() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    beating = {name for name, one in compose.items() if "monitoring.healthy" in str(one.get("healthcheck"))}
    assert {f"chorale-{name}" for name in beating} == set(BEATING)
    for name in ("flower", "http"):
        assert container(f"chorale-{name}")["command"] == compose[name]["command"].split()


def test_the_pipeline_is_the_clustered_one() -> None:
    ours = (ROOT / "config" / "clustered.toml").read_text("utf-8")
    assert (CHART / "pipeline.toml").read_text("utf-8") == ours
    assert of_kind("ConfigMap")["chorale-pipeline"]["data"] == {"pipeline.toml": ours}


def test_a_further_branch_in_the_pipeline_has_its_worker_and_its_scaler(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    branch = '[branches.{name}]\nkind = "vector"\ngroup = "dense"\nstore = "vectors"\n'
    file.write_text(
        (CHART / "pipeline.toml").read_text("utf-8")
        + branch.format(name="vector_it")
        + branch.format(name="vector_de")
        + 'queue = "chorale.vector_it"\n'
    )
    mine = f"--set-file=pipeline={file}"
    queues = {named(queue): queue for queue in load_pipeline(file).queues}
    assert queues.keys() - QUEUES.keys() == {"chorale-vector-it"}
    assert of_kind("Deployment", mine).keys() == queues.keys() | OTHERS
    assert container("chorale-vector-it", mine)["command"][4] == "chorale.vector_it"
    assert of_kind("ScaledObject", mine).keys() == queues.keys() - {INDEX}
    told = of_kind("ConfigMap", mine)["chorale-pipeline"]["data"]["pipeline.toml"]
    assert tomllib.loads(told) == tomllib.loads(file.read_text())


def test_a_change_of_the_pipeline_or_of_a_setting_makes_new_pods() -> None:
    def checksums(*options: str) -> set[str]:
        found = of_kind("Deployment", *options).values()
        return {one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for one in found}

    (before,) = checksums()
    (after,) = checksums("--set=settings.CHORALE_LOG_LEVEL=INFO")
    (scaled,) = checksums("--set=scaling.maxReplicas=9")
    assert before == scaled != after


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (
            "services.hyd.replicas=2",
            r"services\.hyd: there is no such service; there are bm25, bulk, flower,",
        ),
        ("services.bm25.minReplicas=9", r"services\.bm25: minReplicas 9 is more than maxReplicas 8"),
        ("services.index.maxReplicas=3", r"services\.index: .*or has `replicas`: set one of the two to null"),
        ("services.sweeper.minReplicas=3", r"services\.sweeper: it is not scaled: give it `replicas`"),
        ("pipeline=\ufeff[branches.a]", "pipeline: it begins with a byte order mark"),
        ("pipeline=[branches.queue_figures]", r"branches\.queue_figures: .*no place for the queue"),
        ("pipeline=[branches.a_]", "the name chorale-a-, of release and service, is not"),
        # These words are Helm's, and differ between its versions.
        ("services.bm25.replica=2", "services.bm25.*replica"),
        ("scaling.minReplicas=0", "scaling.minReplicas.*1"),
        ("scaling.minReplicas=null", "scaling.*minReplicas"),
        ("image.repository=null", "image.*repository"),
        ("pod=null", "pod"),
        ("pipeline=", "pipeline"),
        ("image.pullPolicy=Often", "image.pullPolicy.*one of.*Always.*IfNotPresent.*Never"),
        ("settings.chorale_log_level=INFO", "chorale_log_level"),
        ("pipeline=[branches", "pipeline: this is no TOML"),
        ("ingress.enabled=true", "ingress.host: the name that callers use"),
        ("pipeline=a = 1", "pipeline: it declares no branch"),
    ],
)
def test_an_invalid_value_is_refused_with_its_name(option: str, complaint: str) -> None:
    said = helm("template", "chorale", str(CHART), f"--set={option}")
    assert said.returncode != 0
    assert "nil pointer" not in said.stderr
    assert re.search(complaint, said.stderr)


def test_a_setting_reaches_the_services_as_it_was_written() -> None:
    # Helm itself writes a large number of a file as 2e+07.
    values = "settings: {CHORALE_A: 20000000, CHORALE_B: 0.25, CHORALE_C: true, CHORALE_D: '0123'}"
    file = "templates/settings.yaml"
    said = helm("template", "chorale", str(CHART), "--values=-", f"--show-only={file}", given=values)
    settings = {key: value for one in yaml.safe_load_all(said.stdout) for key, value in one["data"].items()}
    assert {key: settings[f"CHORALE_{key}"] for key in "ABCD"} == {
        "A": "20000000",
        "B": "0.25",
        "C": "true",
        "D": "0123",
    }


def test_a_service_of_its_own_image_and_resources_keeps_the_rest() -> None:
    options = (
        "--set=services.fusion.image.tag=0.1.0-torch",
        "--set=services.fusion.resources.limits.nvidia\\.com/gpu=1",
        "--set=services.fusion.nodeSelector.card=h200",
    )
    fusion, bm25 = container("chorale-fusion", *options), container("chorale-bm25", *options)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert (fusion["image"], bm25["image"]) == ("chorale:0.1.0-torch", f"chorale:{version}")
    assert fusion["resources"]["limits"] == bm25["resources"]["limits"] | {"nvidia.com/gpu": 1}
    assert fusion["resources"]["requests"] == bm25["resources"]["requests"]
    assert pod("chorale-fusion", *options)["nodeSelector"] == {"card": "h200"}
    assert "nodeSelector" not in pod("chorale-bm25", *options)


def test_a_service_s_own_node_selector_replaces_the_common_one_entirely() -> None:
    options = ("--set=pod.nodeSelector.pool=cpu", "--set=services.fusion.nodeSelector.card=h200")
    assert pod("chorale-fusion", *options)["nodeSelector"] == {"card": "h200"}
    assert pod("chorale-bm25", *options)["nodeSelector"] == {"pool": "cpu"}
    options = ("--set=services.fusion.strategy.type=Recreate", "--set=services.fusion.replicas=1")
    deployments = of_kind("Deployment", *options)
    assert deployments["chorale-fusion"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "strategy" not in deployments["chorale-bm25"]["spec"]


@pytest.mark.parametrize("name", DEPLOYED)
def test_models_lie_in_a_volume_that_the_operator_names(name: str) -> None:
    claim = "--set=models.claim=shared-models"
    mounts = {mount["mountPath"]: mount["name"] for mount in container(name, claim)["volumeMounts"]}
    (volume,) = (one for one in pod(name, claim)["volumes"] if one["name"] == mounts[HF_HOME])
    assert volume["persistentVolumeClaim"] == {"claimName": "shared-models"}
    assert HF_HOME not in {mount["mountPath"] for mount in container(name)["volumeMounts"]}


def test_the_page_builds_the_image_that_the_chart_asks_for() -> None:
    (image,) = re.findall(r"^docker build --tag (\S+) \.$", PAGE, re.MULTILINE)
    repository, _, tag = image.rpartition(":")
    assert f"docker push {image}" in PAGE
    assert f"image: {{ repository: {repository} }}" in PAGE
    assert container("chorale-bm25", f"--set=image.repository={repository}")["image"] == f"{repository}:{tag}"


@pytest.mark.parametrize("release", ["2024", "my.release", "a" * 50])
def test_a_release_name_that_makes_invalid_service_names_is_refused(release: str) -> None:
    said = helm("template", release, str(CHART))
    assert f"the name {release}-" in said.stderr


def test_a_release_name_that_looks_like_a_boolean_stays_a_text() -> None:
    said = helm("template", "true", str(CHART), "--show-only=templates/sweeper.yaml")
    (sweeper,) = yaml.safe_load_all(said.stdout)
    assert sweeper["metadata"]["labels"]["app.kubernetes.io/instance"] == "true"


@pytest.mark.parametrize("name", DEPLOYED)
def test_no_container_is_root_or_can_write_its_image(name: str) -> None:
    assert pod(name)["securityContext"]["runAsNonRoot"]
    assert not pod(name)["automountServiceAccountToken"]
    security = container(name)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container(name)["resources"]["limits"]["memory"]
    assert {mount["mountPath"] for mount in container(name)["volumeMounts"]} == {
        "/var/lib/chorale",
        "/tmp",
        "/etc/chorale",
        "/etc/chorale-certificates",
    }


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_deployment_selects_its_own_pods_and_probes_them(name: str) -> None:
    deployments = of_kind("Deployment")
    spec = deployments[name]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    labels = [str(other["spec"]["selector"]) for other in deployments.values()]
    assert labels.count(str(spec["selector"])) == 1
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container(name).keys()


def asks(probe: dict[str, Any]) -> Any:
    """Returns the action of a probe, without its timing."""
    return next(value for key, value in probe.items() if key in ("exec", "httpGet", "tcpSocket"))


@pytest.mark.parametrize("name", BEATING)
def test_a_worker_is_restarted_when_it_is_not_alive_but_not_when_it_is_not_ready(name: str) -> None:
    for probe, question in (("startup", "alive"), ("liveness", "alive"), ("readiness", "ready")):
        command = ["sh", "-c", f'exec python -m monitoring.healthy {question} "$POD_NAME"']
        assert asks(container(name)[f"{probe}Probe"]) == {"command": command}


def test_a_service_with_http_is_not_restarted_because_the_broker_is_away() -> None:
    figures, flower, http = (container(f"chorale-{name}") for name in ("queue-figures", "flower", "http"))
    for probe in ("startupProbe", "livenessProbe"):
        assert asks(http[probe]) == {"path": "/healthz", "port": 8000}
        assert asks(figures[probe]) == {"port": 9100}
        assert asks(flower[probe]) == {"path": "/healthcheck", "port": 5555}
    assert asks(figures["readinessProbe"]) == {"path": "/chorale.retrieve", "port": 9100}
    assert asks(http["readinessProbe"]) == {"path": "/readyz", "port": 8000}


def test_a_pod_of_the_http_api_ends_after_callers_are_sent_to_others_and_its_answers_are_written() -> None:
    word, seconds = container("chorale-http")["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    limit_s = pod("chorale-http")["terminationGracePeriodSeconds"]
    assert int(seconds) + Settings().soft_shutdown_s < limit_s


def test_an_ingress_with_tls_leads_to_the_http_api_if_it_is_asked_for() -> None:
    assert of_kind("Ingress") == {}
    options = ("--set=ingress.enabled=true", "--set=ingress.host=search.example")
    for version in VERSIONS:
        kubernetes_validate.validate(of_kind("Ingress", *options)["chorale-http"], version, strict=True)
    plain = of_kind("Ingress", *options)["chorale-http"]["spec"]
    assert plain["tls"] == [{"hosts": ["search.example"]}]
    (rule,) = plain["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("search.example", "/v1")
    assert path["backend"] == {"service": {"name": "chorale-http", "port": {"name": "http"}}}
    own = of_kind("Ingress", *options, "--set=ingress.tlsSecret=cert,ingress.className=nginx")[
        "chorale-http"
    ]["spec"]
    assert own["tls"] == [{"hosts": ["search.example"], "secretName": "cert"}]
    assert own["ingressClassName"] == "nginx"


def test_no_other_pod_reaches_flower_whose_metrics_ask_for_no_login() -> None:
    (policy,) = of_kind("NetworkPolicy").values()
    assert policy["spec"] == {
        "podSelector": of_kind("Deployment")["chorale-flower"]["spec"]["selector"],
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


def test_flower_shows_requests_unless_they_are_turned_off() -> None:
    def setting(*options: str) -> str:
        return str(of_kind("ConfigMap", *options)["chorale-settings"]["data"]["CHORALE_TASK_EVENTS"])

    assert setting() == "true"
    assert setting("--set=settings.CHORALE_TASK_EVENTS=false") == "false"


@pytest.mark.parametrize("name", DEPLOYED)
def test_kubernetes_adds_no_variables_that_look_like_settings(name: str) -> None:
    # Otherwise it adds CHORALE_FLOWER_SERVICE_HOST and similar variables for each Service.
    assert pod(name)["enableServiceLinks"] is False


@pytest.mark.parametrize("name", DEPLOYED)
def test_no_pod_keeps_data(name: str) -> None:
    (home,) = (one for one in pod(name)["volumes"] if one["name"] == "home")
    assert home == {"name": "home", "emptyDir": {}}
    assert of_kind("PersistentVolumeClaim") == {}
    # With the default strategy a new pod starts beside the old one.
    assert "strategy" not in of_kind("Deployment")[name]["spec"]


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_variable_is_a_setting_or_a_secret_and_no_secret_stands_here(name: str) -> None:
    variables = {one["name"]: one for one in container(name)["env"]}
    ours = {variable for variable in variables if variable.startswith("CHORALE_")}
    ours |= of_kind("ConfigMap")["chorale-settings"]["data"].keys()
    assert ours <= {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    assert all("value" not in one for one in variables.values())
    role = name.removeprefix("chorale-") if name in OTHERS - {"chorale-queue-figures"} else "worker"
    key = variables["CHORALE_REDIS_URL"]["valueFrom"]["secretKeyRef"]["key"]
    assert key == f"redis-url-{role}"


KEYS = {
    "chorale-flower": {"redis-url-flower", "broker-url", "flower-basic-auth", "flower-broker-api"},
    "chorale-http": {"redis-url-http", "broker-url", "audit-url", "webhook-secret"},
    "chorale-queue-figures": {"redis-url-worker", "broker-url"},
    "chorale-sweeper": {"redis-url-sweeper", "broker-url", "audit-url", "webhook-secret", "chorale-more"},
    **{name: {"redis-url-worker", "broker-url", "audit-url", "chorale-more"} for name in QUEUES},
}
"""The keys of the Secret of logins that each pod is given, and the Secret with the passwords of stores and models."""
OPTIONAL = {"broker-url", "flower-broker-api", "webhook-secret"}


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_pod_gets_the_secrets_that_it_needs_and_no_others(name: str) -> None:
    asked = [one["valueFrom"].get("secretKeyRef") for one in container(name)["env"]]
    keys = {one["key"]: one for one in asked if one}
    # The last entry overrides the others.
    further = [one["secretRef"] for one in container(name)["envFrom"][1:]]
    assert all(one == {"name": "chorale-more", "optional": True} for one in further)
    assert keys.keys() | {one["name"] for one in further} == KEYS[name]
    assert all(one["name"] == "chorale" for one in keys.values())
    assert {key for key, one in keys.items() if one.get("optional")} == OPTIONAL & keys.keys()


def test_an_image_can_be_pinned_by_its_digest() -> None:
    digest = "sha256:" + "0" * 64
    assert container("chorale-bm25", f"--set=image.digest={digest}")["image"].endswith(f"@{digest}")
    assert helm("template", "chorale", str(CHART), "--set=image.digest=latest").returncode != 0


WITHOUT_FURTHER_SECRETS = {"chorale-flower", "chorale-http", "chorale-queue-figures"}


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_pod_takes_certificates_and_workers_take_further_secrets_if_they_exist(name: str) -> None:
    _, *last = container(name)["envFrom"]
    # The last entry overrides the others.
    more = {"secretRef": {"name": "chorale-more", "optional": True}}
    assert last == ([] if name in WITHOUT_FURTHER_SECRETS else [more])
    (files,) = (one["secret"] for one in pod(name)["volumes"] if one["name"] == "certificates")
    assert files == {"secretName": "chorale-certificates", "optional": True}
    (mount,) = (one for one in container(name)["volumeMounts"] if one["name"] == "certificates")
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/chorale-certificates", True)


def keys_of_the_page(file: str) -> dict[str, str]:
    """Returns the variables that the page writes into that file."""
    after = PAGE.partition(f"`{file}`")[2].partition("\n\n")[2].partition("\n\n")[0]
    return dict(line.split("=", 1) for line in after.splitlines() if not line.startswith("```"))


def test_the_values_and_the_page_list_every_key_of_the_secrets() -> None:
    asked = {
        one["valueFrom"]["secretKeyRef"]["key"]
        for name in DEPLOYED
        for one in container(name)["env"]
        if "secretKeyRef" in one["valueFrom"]
    }
    head = (CHART / "values.yaml").read_text("utf-8").partition("secrets:")[2].partition("logins:")[0]
    assert set(re.findall(r"[a-z]+(?:-[a-z0-9]+)+", head)) == asked
    assert keys_of_the_page("chorale.secret").keys() == asked
    stores = load_pipeline(CHART / "pipeline.toml").stores.values()
    named_by_stores = {value for one in stores for key, value in one.options.items() if key.endswith("_env")}
    assert named_by_stores <= keys_of_the_page("more.secret").keys()
    # Every user of the machine sees the words of a command line, and the shell keeps them.
    assert "--from-literal" not in PAGE


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="without kubectl: its commands are read, not run")
def test_the_secrets_are_made_by_the_commands_of_the_page(tmp_path: Path) -> None:
    files = {file: keys_of_the_page(file) for file in ("chorale.secret", "more.secret")}
    for file, keys in files.items():
        (tmp_path / file).write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    (tmp_path / "our-ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    made = {}
    for command in re.findall(r"^kubectl (create secret .*)$", PAGE, re.MULTILINE):
        words = ["kubectl", *command.split(), "--dry-run=client", "--output=yaml"]
        said = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
        secret = yaml.safe_load(said)
        assert secret["metadata"]["namespace"] == "chorale"
        made[secret["metadata"]["name"]] = {
            key: base64.b64decode(value).decode() for key, value in secret["data"].items()
        }
    assert set(made) == set(VALUES["secrets"].values())
    assert made["chorale"] == files["chorale.secret"]
    assert made["chorale-more"] == files["more.secret"]
    assert made["chorale-certificates"].keys() == {"our-ca.crt"}


def url_of(name: str, release: str = "chorale", namespace: str = NAMESPACE) -> str:
    """Returns the address of the figures of a queue, which KEDA can ask from any namespace."""
    return f"http://{release}-queue-figures.{namespace}.svc:9100/{QUEUES[name]}"


@pytest.mark.parametrize("name", SCALED)
def test_workers_of_a_queue_are_scaled_by_how_many_wait_and_for_how_long(name: str) -> None:
    scaler = of_kind("ScaledObject")[name]["spec"]
    assert scaler["scaleTargetRef"] == {"name": name}
    assert 1 == scaler["minReplicaCount"] < scaler["maxReplicaCount"]
    # KEDA's cooldownPeriod counts only before the step from one pod to none.
    behaviour = scaler["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] == 120
    length, age = scaler["triggers"]
    # KEDA divides the number of messages by the number of workers, but not the age of the oldest one.
    assert length == {
        "type": "metrics-api",
        "metricType": "AverageValue",
        "metadata": {"url": url_of(name), "valueLocation": "length", "targetValue": "20"},
    }
    assert age == {
        "type": "metrics-api",
        "metricType": "Value",
        "metadata": {"url": url_of(name), "valueLocation": "age_s", "targetValue": "0.5"},
    }


def test_index_workers_are_not_scaled() -> None:
    assert INDEX not in of_kind("ScaledObject")
    assert of_kind("Deployment")[INDEX]["spec"]["replicas"] == 1


def test_a_deployment_has_a_number_of_replicas_only_without_a_scaler() -> None:
    for option in ("--set=scaling.enabled=true", "--set=scaling.enabled=false"):
        deployments = of_kind("Deployment", option)
        said = {name for name, one in deployments.items() if "replicas" in one["spec"]}
        assert said == deployments.keys() - of_kind("ScaledObject", option).keys()


def test_without_keda_the_number_of_workers_is_fixed_and_no_service_counts_messages() -> None:
    options = ("--set=scaling.enabled=false,scaling.minReplicas=2", "--set=services.bm25.replicas=5")
    deployments = of_kind("Deployment", *options)
    assert deployments.keys() == QUEUES.keys() | OTHERS - {"chorale-queue-figures"}
    replicas = {name: one["spec"]["replicas"] for name, one in deployments.items()}
    ones = dict.fromkeys([INDEX, "chorale-sweeper", "chorale-flower"], 1)
    assert replicas == dict.fromkeys(QUEUES, 2) | ones | {"chorale-http": 2, "chorale-bm25": 5}
    assert of_kind("ScaledObject", *options) == {}


def test_every_service_selects_pods_that_exist() -> None:
    labels = [one["spec"]["selector"]["matchLabels"] for one in of_kind("Deployment").values()]
    services = of_kind("Service")
    assert services.keys() == {"chorale-flower", "chorale-http", "chorale-queue-figures"}
    assert all(service["spec"]["selector"] in labels for service in services.values())


def test_two_releases_share_no_name_and_no_pods() -> None:
    said = helm("template", "second", str(CHART), "--namespace=other")
    resources = [one for one in yaml.safe_load_all(said.stdout) if one]
    assert {one["metadata"]["name"].partition("-")[0] for one in resources} == {"second"}
    for scaler in (one for one in resources if one["kind"] == "ScaledObject"):
        name = scaler["metadata"]["name"].replace("second", "chorale")
        urls = {trigger["metadata"]["url"] for trigger in scaler["spec"]["triggers"]}
        assert urls == {url_of(name, "second", "other")}
    ours = {str(one["spec"]["selector"]) for one in of_kind("Deployment").values()}
    theirs = {str(one["spec"]["selector"]) for one in resources if one["kind"] == "Deployment"}
    assert not ours & theirs


def test_helm_lint_reports_no_error() -> None:
    said = helm("lint", "--strict", str(CHART))
    assert said.returncode == 0, said.stdout


def test_the_chart_has_the_version_of_the_service() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_page_s_commands_name_a_chart_and_a_service_that_exist() -> None:
    (install,) = re.findall(r"^helm (upgrade --install .*)$", PAGE, re.MULTILINE)
    words = install.split()
    assert words[2:4] == ["chorale", "deploy/helm"]
    assert "--namespace=chorale" in words
    (forward,) = re.findall(r"service/(\S+) 5555$", PAGE, re.MULTILINE)
    assert forward in of_kind("Service")
    (deployment, command) = re.findall(r"^kubectl exec .* deployment/(\S+) -- (.*)$", PAGE, re.MULTILINE)[0]
    assert command.startswith("python -m cli keys create ")
    assert deployment in of_kind("Deployment")
