"""Ratios of benchmarks: goals, changes, and the report that collects them."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import run_all  # noqa: E402
from ratios import Ratio, parse_ratios, worse_than, write_ratios  # noqa: E402


def test_goals_are_reached_from_the_right_side():
    assert Ratio("a", "b", 2.0, 2.0).is_reached
    assert not Ratio("a", "b", 1.9, 2.0).is_reached
    assert Ratio("a", "b", 1.9, 2.0, "lower").is_reached
    assert Ratio("a", "b", 1.9).is_reached is None


def test_a_change_is_positive_where_something_got_better():
    assert Ratio("a", "b", 3.0).change_from(Ratio("a", "b", 2.0)) == pytest.approx(0.5)
    assert Ratio("a", "b", 1.0, better="lower").change_from(Ratio("a", "b", 2.0, better="lower")) == pytest.approx(1.0)


def test_only_what_both_reports_have_and_what_is_beyond_noise_counts_as_worse():
    before = [Ratio("x", "y", 2.0), Ratio("gone", "y", 2.0), Ratio("z", "y", 1.0, better="lower")]
    now = [Ratio("x", "y", 1.8), Ratio("new", "y", 0.1), Ratio("z", "y", 1.5, better="lower")]
    assert [ratio.name for ratio, _ in worse_than(before, now)] == ["z"]
    assert [ratio.name for ratio, _ in worse_than(before, now, noise=0.05)] == ["x", "z"]


def test_written_ratios_are_read_as_they_were(tmp_path):
    ratios = [Ratio("a", "b", 1.5, 2.0), Ratio("c", "d", 0.5, better="lower")]
    write_ratios(tmp_path / "ratios.json", ratios)
    assert parse_ratios(json.loads((tmp_path / "ratios.json").read_text())) == ratios


def test_every_script_is_there_and_takes_its_sizes():
    for benchmark in run_all.BENCHMARKS:
        text = (BENCHMARKS / benchmark.script).read_text(encoding="utf-8")
        options = [word for word in f"{benchmark.quick or ''} {benchmark.full}".split() if word.startswith("--")]
        assert all(f'"{option}"' in text for option in options), benchmark.name
        assert "add_option(" in text, benchmark.name


SCRIPT = """
import argparse, sys
sys.path.insert(0, {benchmarks!r})
from ratios import Ratio, add_option, write_ratios
parser = argparse.ArgumentParser()
parser.add_argument("--value", type=float)
add_option(parser)
options = parser.parse_args()
print("measuring")
write_ratios(options.ratios, [Ratio("speed", "a loop", options.value, 2.0)])
sys.exit(options.value < 1)
"""


def test_a_benchmark_is_run_in_either_size_and_gives_its_ratios_and_its_exit_code(tmp_path):
    script, log = tmp_path / "script.py", tmp_path / "log.txt"
    script.write_text(SCRIPT.format(benchmarks=str(BENCHMARKS)))
    benchmark = run_all.Benchmark("speed", str(script), "--value 3", "--value 0.5")
    quick, full = (run_all.run(benchmark, is_quick, log) for is_quick in (True, False))
    assert (quick.exit_code, quick.ratios) == (0, [Ratio("speed", "a loop", 3.0, 2.0)])
    assert (full.exit_code, full.ratios) == (1, [Ratio("speed", "a loop", 0.5, 2.0)])
    assert quick.command == ["script.py", "--value", "3"]
    assert log.read_text().count("measuring") == 2


def test_a_quick_run_leaves_out_what_installs_peers():
    quick, full = run_all.chosen([], True), run_all.chosen([], False)
    assert len(quick) < len(full) == len(run_all.BENCHMARKS)
    assert all(benchmark.quick is not None for benchmark in quick)
    with pytest.raises(SystemExit, match="expected one of"):
        run_all.chosen(["speed"], True)


def test_an_earlier_report_is_read_with_all_its_ratios(tmp_path):
    ratios = [{"name": "a", "against": "b", "value": 1.0}]
    (tmp_path / "before.json").write_text(json.dumps({"benchmarks": [{"ratios": ratios}, {"ratios": []}]}))
    assert run_all.read_report(tmp_path / "before.json") == [Ratio("a", "b", 1.0)]


@pytest.mark.parametrize("text", ["", "[]", '{"benchmarks": 1}', '{"benchmarks": [{"ratios": [{}]}]}'])
def test_a_file_that_is_no_report_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "before.json").write_text(text)
    with pytest.raises(SystemExit, match="expected a report"):
        run_all.read_report(tmp_path / "before.json")
