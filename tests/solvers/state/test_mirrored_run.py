"""A run whose folder is gone continues from its mirror, to the bits of an undisturbed one."""

import shutil
from pathlib import Path

import pytest

from solfa.errors import ConfigError
from tests.solvers.conftest import Crash, Toy, same_run


@pytest.mark.parametrize("after", [10])
def test_a_run_whose_folder_is_lost_ends_as_an_undisturbed_one(
    toy: Toy, tmp_path: Path, bucket: str, after: int
) -> None:
    toy(tmp_path / "whole").run()
    settings = {"checkpoint__minutes": 1e-9, "checkpoint__mirror": bucket, "checkpoint__save_every": 1}
    with pytest.raises(KeyboardInterrupt):
        toy(tmp_path / "first", Crash(after), **settings).run()
    shutil.rmtree(tmp_path / "first")
    resumed = toy(tmp_path / "second", **settings)
    resumed.run()
    assert same_run(tmp_path / "whole", tmp_path / "second")
    assert sorted(path.name for path in (tmp_path / "second").glob("checkpoint_*")) == [
        f"checkpoint_{epoch:04d}.pt" for epoch in (1, 2, 3)
    ]
    toy(tmp_path / "third", **settings).run()  # which has nothing left to do
    assert same_run(tmp_path / "whole", tmp_path / "third")


def test_a_url_with_credentials_is_refused(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint.mirror.*no credentials") as fault:
        toy(tmp_path, checkpoint__mirror="s3://me:hunter22@bucket/runs")
    assert "hunter22" not in str(fault.value)
