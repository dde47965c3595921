"""The examples in docstrings run, each in a folder with `audio/` and `music.solfa`; those of public names import
nothing but public names."""

import ast
import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pages import uses_experiments

from tests.public_names import PUBLIC, home_of, imported_names
from tests.source_texts import modules

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


def private_examples() -> Iterator[doctest.DocTest]:
    """Collect the docstrings that are not those of public names: of private ones, and of methods."""
    parser, public = doctest.DocTestParser(), {inspect.cleandoc(example.docstring or "") for example in EXAMPLES}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if ">>>" in text and text not in public:
                    yield parser.get_doctest(text, {}, f"{module}:{getattr(node, 'name', 'module')}", None, 0)


def code_of(example: doctest.DocTest) -> str:
    return "".join(part.source for part in example.examples)


EXAMPLES = [example for example in examples() if example.examples]
PRIVATE_EXAMPLES = [*private_examples()]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, marks=pytest.mark.slow if "solfa.train(" in code_of(one) else ())
        for one in (*EXAMPLES, *PRIVATE_EXAMPLES)
    ],
    ids=lambda example: example.name,
)
def test_an_example_runs(
    example: doctest.DocTest, page_folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if uses_experiments(code_of(example)):
        request.getfixturevalue("experiments")
    monkeypatch.chdir(page_folder)
    torch.manual_seed(0)
    said: list[str] = []
    assert "+SKIP" not in code_of(example)
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)


def test_the_main_names_show_their_use() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert shown >= {
        *("train", "load_model", "Model", "export_model", "export_codec"),
        *("encode", "open_dataset", "load_codec", "Dataset", "Clip", "Codec", "Encoded"),
        *("make_loader", "Crop", "Pad", "Pack", "Batch", "BatchDataset", "Dset", "open_sources"),
        *("StandardSolver", "build_optimizer", "Watcher", "CodecLM", "generate", "Sashimi", "build_mot", "CodecModel"),
        *("verify", "read_status", "read_audio", "load_environment", "extend_ids", "log_prob"),
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_imports_public_names_only(example: doctest.DocTest) -> None:
    assert [name for name in imported_names(code_of(example)) if not name.is_public] == []
