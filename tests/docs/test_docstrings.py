"""The examples in docstrings run, each in a folder with `audio/` and `music.solfa`. Public functions, and classes that
people construct, have one, which imports nothing but public names."""

import ast
import doctest
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, is_typeddict

import pytest
import torch
from pages import uses_experiments

from solfa.config import Config
from solfa.nn.linears.fbgemm import has_fbgemm
from tests.public_names import PUBLIC, home_of, imported_names
from tests.source_texts import modules

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def defined_names() -> Iterator[tuple[str, str, Any]]:
    """List the public functions and classes once, however many packages export a name: module, name, and the thing."""
    seen = set()
    for module, names in PUBLIC.items():
        for name in names:
            home = home_of(module, name)
            found = getattr(home, name)
            is_defined = inspect.isroutine(found) or (inspect.isclass(found) and found.__module__ == home.__name__)
            if is_defined and (home.__name__, name) not in seen:
                seen.add((home.__name__, name))
                yield module, name, found


def examples() -> Iterator[doctest.DocTest]:
    """Collect the docstrings of public names."""
    parser = doctest.DocTestParser()
    for module, name, found in defined_names():
        yield parser.get_doctest(found.__doc__ or "", {}, f"{module}.{name}", None, 0)


def private_examples() -> Iterator[doctest.DocTest]:
    """Collect the docstrings that are not those of public names: of private ones, and of methods."""
    parser, public = doctest.DocTestParser(), {inspect.cleandoc(example.docstring or "") for example in EXAMPLES}
    for module, path in modules().items():
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if ">>>" in source else ():
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if ">>>" in text and text not in public:
                    yield parser.get_doctest(text, {}, f"{module}:{getattr(node, 'name', 'module')}", None, 0)


def code_of(example: doctest.DocTest) -> str:
    return "".join(part.source for part in example.examples)


def marks_of(example: doctest.DocTest) -> list[pytest.MarkDecorator]:
    """Say when an example can run."""
    marks = [pytest.mark.slow] if "solfa.train(" in code_of(example) else []
    if example.name in ("solfa.nn.halve_linears", "solfa.nn.quantise_linears"):
        marks.append(pytest.mark.skipif(not has_fbgemm(), reason="this torch has no such kernels"))
    return marks


EXAMPLES = [example for example in examples() if example.examples]
PRIVATE_EXAMPLES = [*private_examples()]


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, marks=marks_of(one)) for one in (*EXAMPLES, *PRIVATE_EXAMPLES)],
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


WITHOUT_EXAMPLE = {
    "solfa.environment.examine": "takes seconds and starts a process; `solfa doctor` prints what it finds",
    "solfa.generate.export_adapter": "needs an experiment with an adapter; docs/fine_tuning.md trains one",
    "solfa.generate.export_as_diffusers": "needs a flow model whose codec and text encoder diffusers has",
}
"""Public functions that show no use in their docstrings, and why."""

MADE_BY = {
    "codecs.CodecSpec": "parse_spec",
    "data.Duplicates": "find_duplicates",
    "data.Loader": "make_loader",
    "data.OpenedSource": "open_sources",
    "encoding.EncodeReport": "encode",
    "encoding.Totals": "encode",
    "environment.Environment": "load_environment",
    "environment.Finding": "examine",
    "evaluate.ClipFacts": "clip_facts",
    "evaluate.ClipScore": "evaluate",
    "evaluate.CodeStatistics": "code_statistics",
    "evaluate.Difference": "evaluate",
    "evaluate.LatentStatistics": "latent_statistics",
    "evaluate.LengthHistogram": "length_histogram",
    "experiments.Run": "train",
    "generate.LanguageModel": "load_model",
    "generate.LatentModel": "load_model",
    "generate.ModelInfo": "load_model",
    "generate.TextModel": "load_model",
    "generate.WaveformModel": "load_model",
    "models.FlowNetwork": "build_flow",
    "models.FrozenLM": "load_base",
    "models.MoT": "build_mot",
    "solvers.CompressionSolver": "train",
    "solvers.Evidence": "train",
    "solvers.FlowSolver": "train",
    "solvers.LMSolver": "train",
    "solvers.MoTSolver": "train",
    "solvers.SashimiSolver": "train",
    "xp.ExperimentRecord": "read_experiment",
}
"""Classes that users get and do not construct, and the function that makes them."""


def is_constructed(found: type) -> bool:
    """Say whether people construct a class in Python, as they do not with what has several implementations (protocols),
    with what is raised, returned as a tuple, chosen from (enumerations) or written in YAML (settings)."""
    kinds = (BaseException, tuple, Enum, Config)
    return not (getattr(found, "_is_protocol", False) or is_typeddict(found) or issubclass(found, kinds))


def test_what_people_write_or_implement_themselves_shows_its_use() -> None:
    """Protocols and settings need no example, but these are met by everybody."""
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert shown >= {"Codec", "Config", "Crop", "Delay", "Dset", "Embedder", "Lora", "Pack", "Pad", "Watcher"}


def test_public_functions_and_classes_show_their_use() -> None:
    shown = {example.name for example in EXAMPLES}
    silent = {
        f"{module}.{name}": found
        for module, name, found in defined_names()
        if f"{module}.{name}" not in shown and (inspect.isroutine(found) or is_constructed(found))
    }
    functions = {name for name, found in silent.items() if inspect.isroutine(found)}
    assert functions == WITHOUT_EXAMPLE.keys()
    assert {name.removeprefix("solfa.") for name in silent.keys() - functions} == MADE_BY.keys()
    assert {*MADE_BY.values()} <= {name.rpartition(".")[2] for name in (*shown, *WITHOUT_EXAMPLE)}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_imports_public_names_only(example: doctest.DocTest) -> None:
    assert [name for name in imported_names(code_of(example)) if not name.is_public] == []
