"""An export that was killed is finished by repeating it; a folder that holds anything else is left alone."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from solfa.encoding.legacy_import import import_legacy
from solfa.errors import ConfigError, StoreError
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat, PartLimits
from solfa.store.export.marker import MARKER
from solfa.store.layout import committed_shards, create_info, plan_parts
from solfa.store.plan_file import PLAN_SCHEMA, write_plan_part
from solfa.store.planned_clip import PlannedClip

SCRIPT = """
import json, os, sys
from pathlib import Path
from solfa.store.dataset import open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat, PartLimits
for dest, format, crash in json.loads(sys.argv[2]):
    child = os.fork()
    if not child:
        os.environ["SOLFA_CRASH_AT"] = crash
        export_dataset(open_dataset(sys.argv[1]), Path(dest), ExportFormat(format), limits=PartLimits(max_clips=4))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
LIMITS = PartLimits(max_clips=4)
CRASHES = [
    ("stable-audio", "export:before-rename#8"),
    ("musiccaps", "export:before-publish"),
    ("musiccaps", "export:before-rename#3"),
    ("npy", "export:before-complete"),
    ("webdataset", "export:before-publish#2"),
    ("webdataset", "publish:before-link#2"),
    ("parquet", "publish:after-link#2"),
]


def tree(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.slow
def test_a_killed_export_is_finished_by_repeating_it(codes: Dataset, tmp_path: Path) -> None:
    runs = [(str(tmp_path / f"killed{place}"), *crash) for place, crash in enumerate(CRASHES)]
    command = [sys.executable, "-c", SCRIPT, str(codes.path), json.dumps(runs)]
    killed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert [int(code) for code in killed.stdout.split()] == [-signal.SIGKILL] * len(runs)
    for place, format, crash in runs:
        with pytest.raises(StoreError, match="`solfa export` again"):
            import_legacy(place, tmp_path / "y.solfa")
        export_dataset(codes, Path(place), ExportFormat(format), limits=LIMITS)
        whole = tmp_path / format
        if not whole.exists():
            export_dataset(codes, whole, ExportFormat(format), limits=LIMITS)
        assert tree(Path(place)) == tree(whole), (format, crash)


@pytest.mark.parametrize("format", ExportFormat)
def test_repeating_a_finished_export_writes_nothing(codes: Dataset, format: ExportFormat, tmp_path: Path) -> None:
    first = export_dataset(codes, tmp_path / "out", format)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert export_dataset(codes, tmp_path / "out", format) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()} == times


def test_a_file_that_was_torn_by_a_power_cut_is_written_again(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    before = tree(tmp_path / "out")
    (tmp_path / "out/drums/kick.npy").write_bytes(b"")
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    assert tree(tmp_path / "out") == before


def test_a_folder_with_other_files_is_refused_untouched(codes: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("all of it")
    with pytest.raises(ConfigError, match=r"empty folder, found 'thesis\.txt'"):
        export_dataset(codes, out, ExportFormat.NPY)
    assert tree(out) == {"thesis.txt": b"all of it"}


def test_a_file_a_dataset_and_a_folder_inside_it_are_refused(codes: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    before = tree(codes.path)
    for out, reason in [
        (tmp_path / "file", "found a file"),
        (codes.path, "inside the dataset"),
        (codes.path / "export", "inside the dataset"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            export_dataset(codes, out, ExportFormat.NPY)
    assert tree(codes.path) == before and (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda codes, out: export_dataset(codes, out, ExportFormat.NPY, limits=LIMITS), "npy, found .*webdataset"),
        (
            lambda codes, out: export_dataset(codes[1:], out, ExportFormat.WEBDATASET, limits=LIMITS),
            "another dataset",
        ),
        (lambda codes, out: export_dataset(codes, out, ExportFormat.WEBDATASET), "parts of .*found"),
    ],
)
def test_an_export_of_something_else_is_refused_untouched(codes: Dataset, change, reason: str, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.WEBDATASET, limits=LIMITS)
    before = tree(tmp_path / "out")
    with pytest.raises(ConfigError, match=reason):
        change(codes, tmp_path / "out")
    assert tree(tmp_path / "out") == before


def test_a_damaged_marker_is_one_sentence(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    (tmp_path / "out" / MARKER).write_text('{"format": "np')
    with pytest.raises(StoreError, match=r"_solfa_export\.json: .*export the dataset again"):
        export_dataset(codes, tmp_path / "out", ExportFormat.NPY)


def test_an_empty_folder_and_missing_parents_are_taken(codes: Dataset, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export_dataset(codes, tmp_path / "empty", ExportFormat.PARQUET)
    export_dataset(codes, tmp_path / "deep/er", ExportFormat.PARQUET)
    assert tree(tmp_path / "empty") == tree(tmp_path / "deep/er")


IMPORT = "import sys; from solfa.encoding.legacy_import import import_legacy; import_legacy(sys.argv[1], sys.argv[2])"


@pytest.mark.slow
def test_a_killed_import_is_finished_by_repeating_it(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.PARQUET)
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "out"), str(tmp_path / "killed")]
    killed = subprocess.run(command, env={**os.environ, "SOLFA_CRASH_AT": "shard:before-commit"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    report = import_legacy(tmp_path / "out", tmp_path / "killed")
    import_legacy(tmp_path / "out", tmp_path / "whole")
    assert (report.num_clips, report.num_failed) == (10, 2)
    assert open_dataset(tmp_path / "killed").digest == open_dataset(tmp_path / "whole").digest


def test_an_import_into_the_unfinished_run_of_another_is_refused(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.PARQUET)
    create_info(tmp_path / "y.solfa", codes.info)
    rows = [PlannedClip(id="theirs", key="theirs", uri="theirs.wav").as_row()]
    write_plan_part(tmp_path / "y.solfa", 0, iter([pa.Table.from_pylist(rows, schema=PLAN_SCHEMA)]))
    with pytest.raises(StoreError, match="finish that run"):
        import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert plan_parts(tmp_path / "y.solfa") == [0] and committed_shards(tmp_path / "y.solfa") == []


def test_a_link_does_not_count_as_exported(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.WEBDATASET, limits=LIMITS)
    mine = tmp_path / "mine"
    mine.write_text("precious")
    tar = min((tmp_path / "out").glob("*.tar"))
    tar.unlink()
    tar.symlink_to(mine)
    with pytest.raises(StoreError, match=f"{tar.name}: .*link"):
        export_dataset(codes, tmp_path / "out", ExportFormat.WEBDATASET, limits=LIMITS)
    assert mine.read_text() == "precious"
