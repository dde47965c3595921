"""What a run writes into its log, and where that is seen."""

import logging

from solfa.solvers.watchers.log import LINE_SECONDS, LoggedStages
from solfa.xp.log_files import FILE_ONLY, log_to


def test_a_stage_has_one_line_at_its_end_and_others_only_after_a_while(caplog):
    now = [0.0]
    watcher = LoggedStages(5, clock=lambda: now[0])
    caplog.set_level(logging.INFO)
    watcher.stage_started("train", 2, 100)
    for done in range(1, 11):
        now[0] += LINE_SECONDS / 6
        watcher.step(done, {"loss": 2.0})
    watcher.stage_finished("train", 2, {"loss": 1.5}, now[0])
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split() for line in lines] == [
        ["train", "epoch", "2/5", "6/100", "updates", "loss", "2.000"],
        ["train", "epoch", "2/5", "loss", "1.500", "0.200", "updates/s", "50.0", "s"],
    ]


def test_each_process_has_a_file_and_the_first_a_terminal(tmp_path, capsys):
    logger = logging.getLogger("somebody.else")
    log_to(tmp_path, 0)
    logger.info("from the first")
    logger.error("told otherwise", extra=FILE_ONLY)
    log_to(tmp_path, 1)
    logger.info("from the second")
    log_to(tmp_path, 0)
    logger.info("again")
    shown = capsys.readouterr().err
    assert "from the first" in shown and "again" in shown
    assert "told otherwise" not in shown and "from the second" not in shown
    first = (tmp_path / "solver.log.0").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in first] == ["from the first", "told otherwise", "again"]
    assert (tmp_path / "solver.log.1").read_text().count("\n") == 1
