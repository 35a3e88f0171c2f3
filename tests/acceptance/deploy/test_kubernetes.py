"""deploy/helm, rendered by Helm: a worker and a scaler for each queue of the pipeline, and the other services."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.settings import Settings
from tasks.wiring.pipeline import load_pipeline
from tests.acceptance.deploy.chart import (
    CHART,
    EVERYTHING,
    OTHERS,
    QUEUES,
    ROOT,
    VERSION,
    by_kind,
    containers,
    helm,
    pods,
    rendered,
)
from tests.support.command_line import parse

PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")


def test_every_resource_matches_the_oldest_and_the_newest_schema_of_kubernetes() -> None:
    import kubernetes_validate  # it takes seconds, in each process that collects the tests

    for resource in rendered(*EVERYTHING):
        if not resource["apiVersion"].startswith("keda.sh/"):
            for version in (
                kubernetes_validate.utils.all_versions()[0],
                kubernetes_validate.latest_version(),
            ):
                kubernetes_validate.validate(resource, version, strict=True)


def strict(schema: Any) -> Any:
    """Returns the schema changed so that it refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | {key: strict(value) for key, value in schema.items()}


def test_every_scaler_matches_the_schema_of_keda() -> None:
    import jsonschema  # it takes seconds, in each process that collects the tests

    file = os.environ.get("CHORALE_TEST_KEDA_SCHEMA")
    if file is None:
        pytest.skip("CHORALE_TEST_KEDA_SCHEMA names no keda.sh_scaledobjects.yaml")
    (version,) = yaml.safe_load(Path(file).read_text("utf-8"))["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    # KEDA's schema says only that these are objects.
    schema["properties"]["metadata"] = {"type": "object"}
    for scaler in by_kind("ScaledObject").values():
        jsonschema.validate(scaler, schema)


def test_helm_lint_reports_no_error_and_the_chart_has_the_version_of_the_service() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_pipeline_is_the_clustered_one() -> None:
    ours = (ROOT / "config" / "clustered.toml").read_text("utf-8")
    assert by_kind("ConfigMap")["chorale-pipeline"]["data"] == {"pipeline.toml": ours}


def test_every_queue_of_an_operator_s_pipeline_has_a_worker_and_all_but_index_a_scaler(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pipeline.toml"
    branch = '[branches.vector_it]\nkind = "vector"\ngroup = "dense"\nstore = "vectors"\n'
    file.write_text((CHART / "pipeline.toml").read_text("utf-8") + branch)
    option = f"--set-file=pipeline={file}"
    queues = QUEUES | {"chorale-vector-it": "chorale.vector_it"}
    assert pods(option).keys() == queues.keys() | OTHERS
    for name, queue in queues.items():
        worker = ["python", "-m", "cli", "worker", queue, "--name", "$(POD_NAME)"]
        assert containers(option)[name]["command"] == worker
    assert by_kind("ScaledObject", option).keys() == queues.keys() - {"chorale-index"}


def test_every_command_of_ours_exists_and_flower_and_the_http_api_are_those_of_compose() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for container in containers().values():
        if container["command"][:3] == ["python", "-m", "cli"]:
            parse(container["command"][3:])
    for name in ("flower", "http"):
        assert containers()[f"chorale-{name}"]["command"] == compose[name]["command"].split()


def test_no_container_is_root_or_can_write_its_image_and_each_has_a_limit_of_memory() -> None:
    assert containers().keys() == pods().keys()
    for name, pod in pods().items():
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        # Otherwise Kubernetes adds CHORALE_FLOWER_SERVICE_HOST and similar variables, which look like settings.
        assert pod["enableServiceLinks"] is False
        assert containers()[name]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert containers()[name]["resources"]["limits"]["memory"]


def test_deployments_and_services_select_their_own_pods_and_two_releases_share_none() -> None:
    theirs = rendered(release="second")
    assert {one["metadata"]["name"].partition("-")[0] for one in theirs} == {"second"}
    deployments = [one for one in [*rendered(), *theirs] if one["kind"] == "Deployment"]
    selectors = [str(one["spec"]["selector"]["matchLabels"]) for one in deployments]
    assert len(set(selectors)) == len(deployments)
    assert selectors == [str(one["spec"]["template"]["metadata"]["labels"]) for one in deployments]
    services = by_kind("Service")
    assert services.keys() == {"chorale-flower", "chorale-http", "chorale-queue-figures"}
    for name, service in services.items():
        assert service["spec"]["selector"] == by_kind("Deployment")[name]["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("prefix", "page"),
    [("", "/healthcheck"), ("flower", "/flower/healthcheck"), ("/a/b/", "/a/b/healthcheck")],
)
def test_the_probes_of_flower_follow_its_prefix(prefix: str, page: str) -> None:
    container = containers(f"--set=settings.FLOWER_URL_PREFIX={prefix}")["chorale-flower"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] == page


def test_no_other_pod_reaches_flower_whose_metrics_ask_for_no_login() -> None:
    (policy,) = by_kind("NetworkPolicy").values()
    assert policy["spec"] == {
        "podSelector": by_kind("Deployment")["chorale-flower"]["spec"]["selector"],
        "policyTypes": ["Ingress"],
        "ingress": [],
    }


def test_an_ingress_with_tls_leads_to_the_http_api_only_if_it_is_asked_for() -> None:
    assert by_kind("Ingress") == {}
    ingress = by_kind("Ingress", *EVERYTHING)["chorale-http"]["spec"]
    assert ingress["tls"] == [{"hosts": ["search.example"], "secretName": "cert"}]
    (rule,) = ingress["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("search.example", "/v1")
    assert path["backend"] == {"service": {"name": "chorale-http", "port": {"name": "http"}}}


KEYS = {
    "chorale-flower": {"redis-url-flower", "broker-url", "flower-basic-auth", "flower-broker-api"},
    "chorale-http": {"redis-url-http", "broker-url", "audit-url", "webhook-secret"},
    "chorale-queue-figures": {"redis-url-worker", "broker-url"},
    "chorale-sweeper": {"redis-url-sweeper", "broker-url", "audit-url", "webhook-secret", "chorale-more"},
    **{name: {"redis-url-worker", "broker-url", "audit-url", "chorale-more"} for name in QUEUES},
}
"""The keys of the Secret of logins that each pod is given, and the Secret with the passwords of stores and models."""
OPTIONAL = {"broker-url", "flower-broker-api", "webhook-secret"}


def test_a_pod_gets_the_secrets_that_it_needs_and_no_others() -> None:
    secrets: dict[str, set[str]] = {}
    for name, container in containers().items():
        # A variable with a value would be a secret in plain text.
        assert all("value" not in variable for variable in container["env"])
        references = [variable["valueFrom"].get("secretKeyRef") for variable in container["env"]]
        keys = {key.pop("key"): key for key in map(dict, filter(None, references))}
        for key, secret in keys.items():
            assert secret == {"name": "chorale"} | ({"optional": True} if key in OPTIONAL else {})
        # The last entry overrides the others.
        further = [source["secretRef"] for source in container["envFrom"][1:]]
        assert further in ([], [{"name": "chorale-more", "optional": True}])
        secrets[name] = keys.keys() | {secret["name"] for secret in further}
    assert secrets == KEYS


def test_every_variable_of_ours_is_a_setting() -> None:
    ours = {one["name"] for container in containers().values() for one in container["env"]}
    ours |= by_kind("ConfigMap")["chorale-settings"]["data"].keys()
    settings = {f"CHORALE_{setting.upper()}" for setting in Settings.model_fields}
    assert {name for name in ours if name.startswith("CHORALE_")} <= settings


def test_an_image_can_be_pinned_by_its_digest() -> None:
    digest = "sha256:" + "0" * 64
    image = containers(f"--set=image.digest={digest}")["chorale-bm25"]["image"]
    assert image == f"chorale:{VERSION}@{digest}"
    assert helm("template", "chorale", str(CHART), "--set=image.digest=latest").returncode != 0


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


# Values: what each changes, and which are refused


def test_a_change_of_the_pipeline_or_of_a_setting_makes_new_pods() -> None:
    def checksums(*options: str) -> set[str]:
        deployments = by_kind("Deployment", *options).values()
        return {
            one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for one in deployments
        }

    (before,) = checksums()
    (after,) = checksums("--set=settings.CHORALE_LOG_LEVEL=INFO")
    (scaled,) = checksums(*EVERYTHING)
    assert before == scaled != after


def test_a_setting_and_the_release_reach_the_services_as_they_were_written() -> None:
    # Helm itself writes a large number of a file as 2e+07.
    values = "settings: {CHORALE_A: 20000000, CHORALE_B: 0.25, CHORALE_C: true, CHORALE_D: '0123'}"
    done = helm("template", "true", str(CHART), "--values=-", stdin=values)
    resources = {one["metadata"]["name"]: one for one in yaml.safe_load_all(done.stdout) if one}
    assert resources["true-sweeper"]["metadata"]["labels"]["app.kubernetes.io/instance"] == "true"
    settings = resources["true-settings"]["data"]
    assert [settings[f"CHORALE_{name}"] for name in "ABCD"] == ["20000000", "0.25", "true", "0123"]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (
            "services.hyd.replicas=2",
            r"services\.hyd: there is no such service; there are bm25, bulk, flower,",
        ),
        ("services.bm25.minReplicas=9", r"services\.bm25: minReplicas 9 is more than maxReplicas 8"),
        ("services.index.maxReplicas=3", r"services\.index: .*or has `replicas`: set one of the two to null"),
        ("pipeline=\ufeff[branches.a]", "pipeline: it begins with a byte order mark"),
        ("pipeline=[branches.queue_figures]", r"branches\.queue_figures: .*no place for the queue"),
        ("pipeline=[branches.a_]", "the name chorale-a-, of release and service, is not"),
        ("pipeline=a = 1", "pipeline: it declares no branch"),
        ("ingress.enabled=true", "ingress.host: the name that callers use"),
        # The schema of the values refuses these in Helm's own words, which differ between versions.
        ("services.bm25.replica=2", "services.bm25.*replica"),
        ("scaling.minReplicas=0", "scaling.minReplicas.*1"),
    ],
)
def test_an_invalid_value_is_refused_with_its_name(option: str, complaint: str) -> None:
    done = helm("template", "chorale", str(CHART), f"--set={option}")
    assert done.returncode != 0
    assert re.search(complaint, done.stderr)
