"""The examples in the docstrings of public names run, each in a folder with `audio/` and `music.solfa`, and import
nothing but public names."""

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.public_names import PUBLIC, home_of, imported_names

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> Iterator[doctest.DocTest]:
    """Collect each docstring once, however many packages export its name."""
    parser, seen = doctest.DocTestParser(), set()
    for module, names in PUBLIC.items():
        for name in names:
            home = home_of(module, name)
            found = getattr(home, name)
            is_defined = inspect.isroutine(found) or (inspect.isclass(found) and found.__module__ == home.__name__)
            if is_defined and (home.__name__, name) not in seen:
                seen.add((home.__name__, name))
                yield parser.get_doctest(found.__doc__ or "", {}, f"{module}.{name}", None, 0)


EXAMPLES = [example for example in examples() if example.examples]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: doctest.DocTest, page_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(page_folder)
    torch.manual_seed(0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)


def test_the_main_names_show_their_use() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert shown >= {
        *("encode", "open_dataset", "load_codec", "Dataset", "Clip", "Codec", "Encoded"),
        *("make_loader", "Crop", "Pad", "Pack", "Batch", "BatchDataset", "Dset", "open_sources"),
        *("StandardSolver", "build_optimizer", "Watcher", "CodecLM", "generate", "Sashimi", "build_mot", "CodecModel"),
        *("verify", "read_status", "read_audio", "load_environment", "extend_ids", "log_prob"),
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_imports_public_names_only(example: doctest.DocTest) -> None:
    code = "".join(part.source for part in example.examples)
    assert [name for name in imported_names(code) if not name.is_public] == []
