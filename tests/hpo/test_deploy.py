"""The templates of deploy/: what Ray and KubeRay would read, and that their commands are foxtune's."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from hpo.command_line import build_parser
from hpo.commands.config_flags import SEARCH_FLAGS, TRAINING_FLAGS, effective_from

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENT = DEPLOY.parent / "docs" / "cluster.md"
# Fields of KubeRay 1.6's ray.io/v1, as far as a template may use them.
CONTAINER = {"name", "image", "env", "resources", "volumeMounts", "command", "args", "ports"}
POD = {"containers", "volumes", "serviceAccountName", "tolerations", "nodeSelector", "restartPolicy"}
GROUP = {"rayStartParams", "template"}
FIELDS = {
    "RayJob": {"apiVersion", "kind", "metadata", "spec"},
    "RayJobSpec": {
        *("entrypoint", "runtimeEnvYAML", "submissionMode", "shutdownAfterJobFinishes"),
        *("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "rayClusterSpec"),
    },
    "RayClusterSpec": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "HeadGroupSpec": {*GROUP, "serviceType"},
    "WorkerGroupSpec": {*GROUP, "groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts"},
}


def search_of(command):
    """The configuration that a command line of foxtune asks for."""
    words = shlex.split(command)
    assert words[:4] == ["python", "-m", "hpo", "tune"]
    return effective_from(build_parser().parse_args(words[3:]), TRAINING_FLAGS + SEARCH_FLAGS).config


def test_the_cluster_file_is_what_rays_launcher_accepts():
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())
    jsonschema.validate(cluster, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**cluster, "max_worker": 2}, schema)
    starts = [*cluster["head_start_ray_commands"], *cluster["worker_start_ray_commands"]]
    assert all("RAY_AUTH_MODE=token" in each for each in starts if "ray start" in each)


def test_the_job_of_the_cluster_file_is_a_search_that_several_nodes_can_share():
    comment = "\n".join(re.findall(r"^# ?(.*)$", (DEPLOY / "ray-cluster.yaml").read_text(), re.MULTILINE))
    command = re.search(
        r"ray job submit --working-dir \. -- (python.*?\S)\n(?!\s+--)", comment.replace("\\\n", " ")
    )
    assert command is not None
    search = search_of(command[1])
    assert (search.runs, search.storage) == ("/shared/runs", "journal:/shared/runs/mine.log")


def test_the_job_for_kubernetes_has_the_operators_fields_and_a_search_of_ours():
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job) <= FIELDS["RayJob"]
    assert set(spec) <= FIELDS["RayJobSpec"]
    assert set(cluster) <= FIELDS["RayClusterSpec"]
    assert set(groups[0]) <= FIELDS["HeadGroupSpec"]
    assert all(set(group) <= FIELDS["WorkerGroupSpec"] for group in groups[1:])
    for group in groups:
        pod = group["template"]["spec"]
        assert set(pod) <= POD
        mounts = [mount["mountPath"] for each in pod["containers"] for mount in each["volumeMounts"]]
        assert mounts == ["/shared"]
        assert all(set(each) <= CONTAINER for each in pod["containers"])
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    assert set(yaml.safe_load(spec["runtimeEnvYAML"])) == {"working_dir"}
    assert cluster["authOptions"] == {"mode": "token"}
    search = search_of(spec["entrypoint"])
    assert (search.runs, search.storage) == ("/shared/runs", "journal:/shared/runs/k8s.log")


def test_every_command_of_the_cluster_document_is_one_that_the_program_knows():
    commands = re.findall(r"python -m hpo [^`\n]*", DOCUMENT.read_text().replace("\\\n", " "))
    assert len(commands) >= 3
    for command in commands:
        words = shlex.split(command.partition("#")[0].replace("...", ""))
        build_parser().parse_args(words[3:])
