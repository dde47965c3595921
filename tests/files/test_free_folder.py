"""Nobody's files are written among: a folder is new, empty or our own, or it is refused by what it holds."""

import pytest

from solfa.errors import ConfigError
from solfa.files.free_folder import expect_free


def test_a_new_an_empty_and_an_own_folder_are_free(tmp_path):
    expect_free(tmp_path / "new", "go away")
    expect_free(tmp_path, "go away")
    (tmp_path / ".tmp").mkdir()
    expect_free(tmp_path, "go away", is_ours=lambda name: name == ".tmp")


def test_what_is_there_is_named_with_what_to_do(tmp_path):
    (tmp_path / "b").touch()
    with pytest.raises(ConfigError, match=r"empty folder, found a file; choose another$"):
        expect_free(tmp_path / "b", "choose another")
    with pytest.raises(ConfigError, match=r"expected a dataset, found 'b'.*; choose another$"):
        expect_free(tmp_path, "choose another", expected="a dataset")
    (tmp_path / "a").touch()
    with pytest.raises(ConfigError, match="found 'a' and 1 more"):
        expect_free(tmp_path, "choose another")


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_link_to_nothing_is_refused_in_a_sentence(tmp_path, target):
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(ConfigError, match="broken link; go away"):
        expect_free(tmp_path / "link", "go away")
