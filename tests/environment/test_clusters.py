"""Which cluster a machine belongs to is decided from plain values."""

import pytest

from solfa.environment.clusters import ClusterConfig, detect_cluster

RULES = {"default": (), "darwin": (), "slurm": (), "frontier": (), "aws": ("*.ec2*", "ip-10-*")}


@pytest.mark.parametrize(
    ("environ", "system", "hostname", "cluster"),
    [
        ({}, "Linux", "box", "default"),
        ({}, "Darwin", "box", "darwin"),
        ({"SLURM_JOB_ID": "7"}, "Linux", "n1", "slurm"),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "frontier"}, "Linux", "n1", "frontier"),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "summit"}, "Linux", "n1", "slurm"),
        ({}, "Linux", "IP-10-0-0-3", "aws"),
        ({"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "frontier"}, "Linux", "x.ec2.internal", "aws"),
        ({"SLURM_JOB_ID": ""}, "Linux", "n1", "default"),
    ],
)
def test_the_cluster_is_recognised(environ, system, hostname, cluster):
    assert detect_cluster(environ, system, hostname, RULES) == cluster


def test_a_login_node_is_recognised_by_its_sbatch():
    assert detect_cluster({}, "Linux", "login", RULES, has_sbatch=True) == "slurm"
    assert detect_cluster({}, "Linux", "login", {"default": ()}, has_sbatch=True) == "default"


def test_only_clusters_that_are_configured_are_answered():
    assert detect_cluster({"SLURM_JOB_ID": "7"}, "Darwin", "n1", {"default": ()}) == "default"


def test_lists_become_what_slurm_reads():
    cluster = ClusterConfig(partitions={"global": ["a", "b"], "team": "c"}, slurm_exclude=["n1", "n2"], hosts="x*")
    assert (cluster.partitions, cluster.slurm_exclude) == ({"global": "a,b", "team": "c"}, "n1,n2")
    assert cluster.hosts == ("x*",)
