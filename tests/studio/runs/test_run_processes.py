"""Resuming: the command is the one that a person would type."""

import json
from pathlib import Path

from solfa.studio.runs.run_processes import resume_command


def test_a_run_of_several_processes_is_resumed_with_as_many(tmp_path: Path) -> None:
    folder = tmp_path / "abcd1234"
    folder.mkdir()
    assert resume_command(folder)[1:] == ["-m", "solfa", "train", "-f", "abcd1234"]
    for rank in (1, 2):
        (folder / f"worker_{rank}.log").touch()
    (folder / "provenance.json").write_text(
        json.dumps([{"command": "dora -P solfa --main_module train run -- seed=1"}])
    )
    assert resume_command(folder)[-2:] == ["--ddp-workers", "3"]
    (folder / "provenance.json").write_text(json.dumps([{"command": "solfa train seed=1"}]))
    assert resume_command(folder)[-1] == "abcd1234"  # later somebody went on with one
