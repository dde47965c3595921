"""The names of an experiment's files are spelled in one module, and mean what they say."""

import re
from pathlib import Path

import pytest

from solfa.xp import layout
from tests.source_texts import modules, texts

OWNER = "xp/layout.py"

UNMISTAKABLE = re.compile(
    r"\.argv\.json|\.prepared\.json|history\.json|checkpoint\S*\.pt|best\.pt|solver\.log|worker_\S*\.log|output\.log"
)
"""Names that nothing else has: not even a part of a text may spell one."""
AMBIGUOUS = {layout.CONFIG, layout.SAMPLES_PAGE, layout.SAMPLES, layout.TENSORBOARD, layout.LOCK}
"""Names that are words, or files of others: no text is one."""
OTHERS = {
    "pretrained": {layout.CONFIG},  # what save_pretrained writes beside weights
    "cli/clip_folder.py": {layout.SAMPLES},  # the unit of a progress bar
}


def test_no_other_module_spells_a_name_of_the_folder():
    spelled = []
    for name, path in modules().items():
        allowed = {word for place, words in OTHERS.items() if name.startswith(place) for word in words}
        for line, text in texts(path):
            if name != OWNER and (UNMISTAKABLE.search(text) or text in AMBIGUOUS - allowed):
                spelled.append(f"{name}:{line}: {text!r}")
    assert not spelled


def test_the_drawing_shows_every_name():
    names = [value for name, value in vars(layout).items() if name.isupper() and not name.startswith("_")]
    logs = [layout.log_path(Path()), layout.worker_log_path(Path(), 1)]
    paths = [*logs, layout.copy_path(Path(), 12), layout.stage_path(Path(), "valid")]
    for name in [*names, *map(str, paths)]:
        assert name in (layout.__doc__ or "")


def test_copies_and_states_are_found_by_their_names(tmp_path):
    for name in (layout.LAST, layout.BEST, "checkpoint_0002.pt", "checkpoint_0010.pt", "checkpoint_x.pt", "other.pt"):
        (tmp_path / name).touch()
    assert layout.copied_epochs(tmp_path) == [2, 10]
    assert layout.copy_path(tmp_path, 10).is_file()
    assert {layout.LAST, layout.BEST} < {path.name for path in layout.state_paths(tmp_path)}
    assert "other.pt" not in {path.name for path in layout.state_paths(tmp_path)}


@pytest.mark.parametrize("name", [".checkpoint.pt.12.abcd", ".config.json.12.abcd"])
def test_what_a_killed_process_left_is_found(tmp_path, name):
    for other in (layout.LAST, layout.ARGV, layout.PREPARED):
        (tmp_path / other).touch()
    (tmp_path / name).touch()
    assert layout.leftovers(tmp_path) == [tmp_path / name]
