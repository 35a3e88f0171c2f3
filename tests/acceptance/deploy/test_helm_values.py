"""The values of deploy/helm: what each changes, and which are refused."""

from __future__ import annotations

import copy
import re

import pytest
import yaml

from tests.acceptance.deploy.chart import (
    CHART,
    EVERYTHING,
    QUEUES,
    ROOT,
    VERSION,
    containers,
    helm,
    of_kind,
    pods,
)


def test_without_keda_the_number_of_workers_is_fixed_and_no_service_counts_messages() -> None:
    options = ("--set=scaling.enabled=false,scaling.minReplicas=2,services.bm25.replicas=5",)
    replicas = {name: one["spec"]["replicas"] for name, one in of_kind("Deployment", *options).items()}
    ones = dict.fromkeys(["chorale-index", "chorale-sweeper", "chorale-flower"], 1)
    assert replicas == dict.fromkeys(QUEUES, 2) | ones | {"chorale-http": 2, "chorale-bm25": 5}
    assert of_kind("ScaledObject", *options) == {}
    # With KEDA every upgrade would reset the number of workers.
    scaled = {name for name, one in of_kind("Deployment").items() if "replicas" not in one["spec"]}
    assert scaled == of_kind("ScaledObject").keys()


def test_a_service_of_its_own_image_resources_and_node_keeps_the_rest() -> None:
    fusion, bm25 = (containers(*EVERYTHING)[name] for name in ("chorale-fusion", "chorale-bm25"))
    assert (fusion["image"], bm25["image"]) == ("chorale:torch", f"chorale:{VERSION}")
    assert fusion["resources"]["limits"] == bm25["resources"]["limits"] | {"nvidia.com/gpu": 1}
    assert fusion["resources"]["requests"] == bm25["resources"]["requests"]
    # A node selector of its own replaces the common one entirely.
    selectors = {name: pod["nodeSelector"] for name, pod in pods(*EVERYTHING).items()}
    assert selectors == {name: {"pool": "cpu"} for name in selectors} | {"chorale-fusion": {"card": "h200"}}
    strategies = {
        name: one["spec"].get("strategy") for name, one in of_kind("Deployment", *EVERYTHING).items()
    }
    assert strategies == dict.fromkeys(strategies) | {"chorale-fusion": {"type": "Recreate"}}


def test_models_lie_in_a_volume_that_the_operator_names_and_no_pod_keeps_other_data() -> None:
    (hf_home,) = re.findall(r"HF_HOME=(\S+)", (ROOT / "Dockerfile").read_text("utf-8"))
    for name, container in containers(*EVERYTHING).items():
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume.pop("name"): volume for volume in copy.deepcopy(pods(*EVERYTHING)[name]["volumes"])}
        assert volumes[mounts[hf_home]] == {"persistentVolumeClaim": {"claimName": "shared-models"}}
        assert volumes[mounts["/var/lib/chorale"]] == {"emptyDir": {}}
        certificates = {"secretName": "chorale-certificates", "optional": True}
        assert volumes[mounts["/etc/chorale-certificates"]] == {"secret": certificates}


def test_a_change_of_the_pipeline_or_of_a_setting_makes_new_pods() -> None:
    def checksums(*options: str) -> set[str]:
        found = of_kind("Deployment", *options).values()
        return {one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for one in found}

    (before,) = checksums()
    (after,) = checksums("--set=settings.CHORALE_LOG_LEVEL=INFO")
    (scaled,) = checksums(*EVERYTHING)
    assert before == scaled != after


def test_a_setting_and_the_release_reach_the_services_as_they_were_written() -> None:
    # Helm itself writes a large number of a file as 2e+07.
    values = "settings: {CHORALE_A: 20000000, CHORALE_B: 0.25, CHORALE_C: true, CHORALE_D: '0123'}"
    done = helm("template", "true", str(CHART), "--values=-", given=values)
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
