import os

import pytest

from solfa.environment.doctor import Finding, examine


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    listed = examine()
    named = {finding.name: finding for finding in listed}
    assert len(named) == len(listed)
    return named


def test_the_examination_covers_what_encoding_needs(findings):
    assert {"python", "torch", "devices", "cores", "cpu features", "bf16 on the cpu"} <= set(findings)
    assert {"memory allocation", "soundfile", "av", "disk"} <= set(findings)


def test_whatever_is_not_right_comes_with_advice(findings):
    for finding in findings.values():
        assert finding.found
        assert (finding.status == "ok") == (finding.advice == "")


def test_the_numbers_are_those_of_this_process(findings):
    import torch

    assert findings["torch"].found.startswith(torch.__version__)
    assert findings["cores"].found.startswith(f"{len(os.sched_getaffinity(0))} ")
    assert "MP3" in findings["soundfile"].found
