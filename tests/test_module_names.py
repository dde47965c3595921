"""What modules and classes are called, and how modules begin: no name has two meanings, and a first line says what it
is for."""

import ast
from collections import Counter

from tests.source_texts import modules

MEANINGS = {
    "__init__.py": "a package",
    "catalogue.py": "what can be asked for by name, and where it is",
    "config.py": "the typed settings of its package",
    "debug.py": "a grid that takes a minute",
    "generation.py": "how a model of its package draws, step by step",
    "layout.py": "the names of the files in a folder",
    "network.py": "the network of a model",
    "protocol.py": "what the things of its package have in common",
    # A command of the command line is called as what it gives access to.
    "dataset.py": "a dataset",
    "doctor.py": "what this machine can do",
    "grid.py": "grids",
    "train.py": "training",
    # A layout of somebody else, written by store/export and read by store/legacy.
    "musiccaps.py": "MusicCaps token folders",
    "npy_folder.py": "folders of .npy files",
    "stable_audio.py": "the output of stable-audio-tools",
    # Of a language model, and of a flow model.
    "costs.py": "what an update of a network costs",
    # Of SaShiMi, and of transformers.
    "library.py": "a library of C code: what it is compiled from, and its functions",
    "stepper.py": "steps of a network in C",
    "structures.py": "what C code reads, as ctypes has it",
    # The mathematics, and the codec that is nothing else.
    "mulaw.py": "mu-law",
}


def test_a_name_that_occurs_twice_has_one_meaning():
    names = Counter(name.rpartition("/")[2] for name in modules())
    assert {name for name, count in names.items() if count > 1} == MEANINGS.keys()


THINGS = {"embedding", "lightning", "listing", "recording", "routing", "sampling", "spelling"}
"""Words in -ing that are the names of things; Lightning is a library."""


def test_a_module_is_called_as_a_thing_and_not_as_what_is_done():
    last_words = {name.rpartition("/")[2].removesuffix(".py").rpartition("_")[2] for name in modules()}
    assert {word for word in last_words if word.endswith("ing")} == THINGS


def test_a_class_has_a_name_of_its_own():
    """Except structures of C code, which are called as they are there: a `Linear` or a `Tier`, as a kernel reads it."""
    names = Counter(
        node.name
        for path in modules().values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == {"Linear", "Tier"}


def test_the_first_line_of_a_module_is_whole():
    """Pages show it alone: the list of layers, the index of the API reference."""
    for name, path in modules().items():
        first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        assert first.endswith((".", ":")), f"{name}: {first!r}"
