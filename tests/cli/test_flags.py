"""The library names parameters, the command line names flags, and neither touches what only looks like one."""

import re

import pytest
import typer

import solfa
from solfa.cli.flags import command_of, in_flags
from solfa.cli.main import app
from solfa.generate.options import DrawOptions
from solfa.studio.generate.model_choice import WORDS
from tests.source_texts import modules, texts

APP = typer.main.get_command(app)
FLAG = re.compile(r"(?<![\w/-])--[a-z]")
QUOTED = re.compile(r"`([^`]*)`")
INSTALL = re.compile(r"pip install \S+")
NOT_MESSAGES = ("cli/", "ui/html/style.py", "nn/kernels/library.py")
"""The command line itself, a style sheet, and a compiler's command."""


@pytest.mark.parametrize(
    ("command", "sentence", "spelled"),
    [
        ("encode", "`max_failed`: expected a count", "--max-failed: expected a count"),
        ("encode", "`device=tpu`: not usable here", "--device tpu: not usable here"),
        ("encode", "found a file; choose another `dest`", "found a file; choose another DEST"),
        ("train", "or `clear=True` to start anew", "or --clear to start anew"),
        ("grid", "name a `package` with grids in it", "name a --package with grids in it"),
        ("generate", "or use `stream=False`", "or use --no-stream"),
        ("pre-encode", "begin a new `output_path`", "begin a new --output-path"),
        ("pre-encode", "leave `dataset_config` out", "leave --dataset-config out"),
        ("import", "give it as `checkpoint=PATH`", "give it as --checkpoint PATH"),
    ],
)
def test_a_parameter_is_spelled_as_it_is_typed(command, sentence, spelled):
    assert in_flags(sentence, command_of(APP, [command, "--some", "thing"])) == spelled


@pytest.mark.parametrize(
    "sentence",
    [
        "limit: no such file",
        "/data/device/max_failed: expected audio, found none",
        "/data/`device`/x.wav: has 0 samples",
        "`solfa status` lists the reasons",
        "`unknown_name`: expected something",
        "the device is slow, the limit is 3",
        "a`device`b",
    ],
)
def test_what_is_no_parameter_of_the_command_stays_as_it_is(sentence):
    assert in_flags(sentence, command_of(APP, ["encode"])) == sentence


def test_without_a_command_nothing_is_spelled_anew():
    assert command_of(APP, ["--version"]) is None and command_of(APP, ["nothing"]) is None
    assert in_flags("`clear=True`", None) == "`clear=True`"


def test_the_command_says_flags_where_the_library_says_parameters(solfa_main, audio_folder, tmp_path):
    code, said = solfa_main("encode", audio_folder, tmp_path / "d", "--codec", "mulaw", "--max-failed", "some")
    assert (code, "--max-failed: expected a count" in said) == (2, True)
    with pytest.raises(solfa.errors.ConfigError, match=r"^`max_failed`: expected a count"):
        solfa.encode(audio_folder, tmp_path / "d", codec="mulaw", max_failed="some")


def test_no_message_of_the_library_names_a_flag():
    named = []
    for name, path in modules().items():
        for line, text in texts(path) if not name.startswith(NOT_MESSAGES) else ():
            # A command that a sentence quotes as a whole may have flags.
            said = INSTALL.sub("", QUOTED.sub(lambda quoted: "" if " " in quoted[1] else quoted[0], text))
            # A text of one word is an argument for a process; a sentence has several.
            if " " in said and FLAG.search(said):
                named.append(f"{name}:{line}: {text}")
    assert not named


def wrong_commands(text):
    """List the `solfa ...` commands that a text quotes and that do not exist, or not with these flags."""
    for quoted in QUOTED.findall(text):
        program, *words = quoted.split() or [""]
        if program != "solfa" or not words or words[0] in ("--help", "--version"):
            continue
        command = APP.commands.get(words[0])
        known = (
            {"--help", *(flag for one in command.params for flag in one.opts + one.secondary_opts)} if command else ()
        )
        flags = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
        if command is None or flags - set(known):
            yield quoted


def test_a_command_that_a_message_quotes_exists_with_its_flags():
    found = [(name, line, text) for name, path in modules().items() for line, text in texts(path)]
    assert sum("`solfa " in text for _, _, text in found) > 20
    assert [(name, line, wrong) for name, line, text in found for wrong in wrong_commands(text)] == []


@pytest.mark.parametrize("text", ["run `solfa verifi`", "see `solfa gc X --dry`", "`x` and `solfa train --cler a=1`"])
def test_a_quoted_command_that_does_not_exist_is_found(text):
    assert len([*wrong_commands(text)]) == 1
    assert [*wrong_commands("`solfa gc X --dry-run` and `solfa --version`, not `solfa.gc`")] == []


def test_running_the_python_of_a_dataset_config_is_asked_for_alike_everywhere():
    asked = {
        name: option.opts
        for name, command in APP.commands.items()
        for option in command.params
        if "custom_metadata_module" in (getattr(option, "help", None) or "")
    }
    assert asked.keys() == {"encode", "fingerprint", "pre-encode", "import", "verify"}
    assert all(set(names) == {"--trust-code", "--run-python"} for names in asked.values())


def test_every_way_to_draw_has_a_flag_and_a_field_in_the_studio():
    ways = set(DrawOptions.__annotations__)
    command = command_of(APP, ["generate"])
    assert command is not None and ways - {parameter.name for parameter in command.params} == set()
    assert ways == set(WORDS)


@pytest.mark.parametrize(
    "arguments", [("status", "s3://me:hunter22@bucket/x"), ("decode", "music.solfa", "s3://bucket/out")]
)
def test_a_place_that_cannot_be_is_refused_in_our_words_alone(solfa_main, arguments):
    code, said = solfa_main(*arguments)
    assert code == 2 and "expected" in said and "Value error" not in said and "hunter22" not in said
