"""Check what a user types after `dora run` and `solfa train`, before Hydra sees it.

    solver=lm/debug           choose a file from a group
    optim.epochs=3            replace a value
    +name=3, ++name=3         add a value, as Hydra spells it

Hydra answers a mistake with a page of text and a traceback; Solfa answers with one sentence and the closest name.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.experiments.compose.audiocraft_names import choice_here, keys_here
from solfa.experiments.compose.foreign_keys import ADAPTER_SCRIPTS, answer_keys
from solfa.experiments.compose.state_spaces_names import names_here
from solfa.files.stores.place import is_url

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

Groups = Mapping[str, Sequence[str]]
"""The files to choose from, by group: `solver` has `lm/base`, `lm/debug`."""

_VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*([A-Za-z_]\w*)")
_TELLING = 4
"""Shorter values are only recognised in quotes: a bare `3` may be anything."""
_NOT_GROUPS = ("teams", "pre_encode")
_SUGGESTION = re.compile(r", did you mean '[^']*'\?")
_BARE = re.compile(r"[A-Za-z_/][\w/.-]*", re.ASCII)
_WORDS = ("null", "true", "false", "nan", "inf")
_SET_ELSEWHERE = {
    "dora": "to choose where experiments are kept, set SOLFA_DORA_DIR or edit the team's file",
    "slurm": "pass it to `dora launch`, or set it in a grid with launcher.slurm_(...)",
    "hydra": "Solfa keeps one folder per experiment and ignores Hydra's own settings",
}


def find_groups(folders: Iterable[Path]) -> dict[str, list[str]]:
    """List the groups in some conf folders and the choices in each; a file in a subfolder belongs to both levels."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        for path in folder.rglob("*.yaml"):
            parts = path.relative_to(folder).with_suffix("").parts
            if len(parts) < 2 or parts[0] in _NOT_GROUPS:
                continue
            for depth in range(1, len(parts)):
                found.setdefault("/".join(parts[:depth]), set()).add("/".join(parts[depth:]))
    return {group: sorted(names) for group, names in sorted(found.items())}


def parse_override(text: str) -> "Override":
    """Parse what somebody typed; if it would do with quotes, the error says where they go."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Quote, QuotedString
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    try:
        return parser.parse_override(text)
    except HydraException as error:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text}: expected KEY=VALUE, found no =; {_without_key(text)}") from None
        quoted = f"{key}={QuotedString(value, Quote.double).with_quotes()}"
        try:
            parser.parse_override(quoted)
            hint = f"; quote the value: '{quoted}'"
        except HydraException:
            hint = ""
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{text}: expected KEY=VALUE in Hydra's syntax ({reason}){hint}") from None


def _without_key(text: str) -> str:
    """Say what somebody may have meant who typed a value alone."""
    if text.rstrip("/").endswith(".solfa") or Path(text).exists() or is_url(text):
        return f"to train on it, type dset.train={text}"
    return f"type solver={text} if it is a solver, or dset.train={text} if it is your data"


def check_overrides(texts: Sequence[str], groups: Groups) -> None:
    """Refuse what cannot be part of an experiment, and choices that do not exist."""
    for text in texts:
        override = parse_override(text)
        if override.is_delete():
            raise ConfigError(
                f"{text}: keys cannot be deleted, because an experiment's signature is made of the keys that differ; "
                f"set {override.key_or_group}=null, or give it another value"
            )
        if override.is_sweep_override():
            raise ConfigError(f"{text}: expected a single value; to try several, write a grid, see `solfa grid --help`")
        head = override.key_or_group.partition(".")[0].partition("/")[0]
        if head in _SET_ELSEWHERE:
            raise ConfigError(f"{text}: this is not part of an experiment; {_SET_ELSEWHERE[head]}")
        _check_choice(text, override.key_or_group, override.value(), groups)


def as_overrides(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Write settings that are Python values as overrides; a mapping becomes one for each key in it."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from as_overrides(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={_as_typed(value)}"


def _as_typed(value: Any) -> str:
    """Write a value in Hydra's grammar, in which keys are bare and texts that could mean something else are quoted."""
    from hydra.core.override_parser.types import Quote, QuotedString

    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_as_typed(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(_as_typed(item) for item in value) + "]"
    text = str(value)
    # A choice of a group is part of the signature as it is typed, so quotes are used only where they must be.
    if not isinstance(value, str | Path) or (_BARE.fullmatch(text) and text.lower() not in _WORDS):
        return text
    return QuotedString(text, Quote.double).with_quotes()


def _check_choice(text: str, group: str, chosen: Any, groups: Groups) -> None:
    if group not in groups:
        return
    for choice in chosen if isinstance(chosen, list) else [chosen]:
        offered = ", ".join(groups[group])
        if choice is None:
            raise ConfigError(f"{text}: expected one of {offered}, found null; leave it out to use the default")
        name = str(choice).removesuffix(".yaml")
        if name not in groups[group]:
            is_mistyped = get_close_matches(name, groups[group], n=1, cutoff=0.85)
            if not is_mistyped and (here := choice_here(group, name)):
                raise ConfigError(f"{text}: there is no such file; here it is {here}")
            hint = (nearest if is_mistyped else _like)(name, groups[group])
            raise ConfigError(f"{text}: expected one of {offered}, found {name!r}{hint}")


def _like(name: str, offered: Sequence[str]) -> str:
    """Suggest files of the same task or for the same purpose, or else with similar letters; the end of a sentence."""
    task, _, purpose = name.rpartition("/")
    meant = [other for other in offered if task and other.startswith(f"{task}/")]
    meant = meant or [other for other in offered if other.rpartition("/")[2] == purpose]
    return f", did you mean {' or '.join(map(repr, meant))}?" if meant else nearest(name, offered)


def as_typed(sentence: str, texts: Iterable[str], variables: Mapping[str, str]) -> str:
    """Put `${oc.env:NAME}` back where a sentence shows the value of a variable that `texts` refer to.

    It may be a secret, and it is not what the user typed.
    """
    names = {name for text in texts for name in _VARIABLE.findall(text)}
    values = {name: variables[name] for name in names if variables.get(name)}
    for name, value in sorted(values.items(), key=lambda item: -len(item[1])):
        shown = f"${{oc.env:{name}}}"
        sentence = sentence.replace(repr(value), repr(shown))
        if len(value) >= _TELLING:
            sentence = sentence.replace(value, shown)
    return sentence


def key_of(text: str) -> str:
    """Name what an override sets, without Hydra's plus signs."""
    return text.partition("=")[0].strip().lstrip("+")


def is_plain(text: str) -> bool:
    """Say whether an override replaces a value rather than adding one."""
    return not text.startswith(("+", "~"))


def unknown_keys(texts: Sequence[str], base: Mapping[str, Any], groups: Groups) -> list[str]:
    """List the overrides that want to replace a value the composed files do not have."""
    return [text for text in texts if is_plain(text) and key_of(text) not in groups and not _holds(base, key_of(text))]


def _holds(values: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def check_group_names(texts: Sequence[str], groups: Groups) -> None:
    """Refuse a mistyped group among overrides that replace nothing: `slover=lm/debug`."""
    for text in texts:
        key = key_of(text)
        if here := keys_here([text]) if "/" in key else []:
            raise ConfigError(here[0])
        if "." not in key and (hint := nearest(key, groups)):
            raise ConfigError(f"{text}: there is no key or group called {key!r}{hint}")


def answer_unknown(sentence: str, texts: Sequence[str], base: Mapping[str, Any]) -> str:
    """Add to a refusal what was probably meant by overrides that replace nothing.

    The names of other programs come first, then the same name in another place, then similar letters.
    """
    if answers := [*names_here(texts), *keys_here(texts), *answer_keys(ADAPTER_SCRIPTS, texts)]:
        return "; ".join(answers)
    texts = [text for text in texts if key_of(text).partition(".")[0] in sentence]
    if elsewhere := same_name_elsewhere(texts, base):
        return f"{_SUGGESTION.sub('', sentence)}; did you mean {' or '.join(elsewhere)}?"
    if not _SUGGESTION.search(sentence):
        for text in texts:
            outer, _, name = key_of(text).rpartition(".")
            if hint := nearest(name, _keys_at(base, outer)):
                return f"{sentence}{hint}"
    return sentence


def _keys_at(values: Any, key: str) -> list[str]:
    for part in key.split(".") if key else ():
        values = values.get(part) if isinstance(values, Mapping) else None
    return list(values) if isinstance(values, Mapping) else []


def same_name_elsewhere(texts: Sequence[str], base: Mapping[str, Any]) -> list[str]:
    """Guess which keys were meant by overrides that replace nothing: `epochs=3` is probably `optim.epochs`."""
    names = {key_of(text).rpartition(".")[2] for text in texts}
    return [key for key in _dotted(base) if key.rpartition(".")[2] in names]


def _dotted(values: Mapping[str, Any], outer: str = "") -> Iterable[str]:
    for key, value in values.items():
        yield f"{outer}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{outer}{key}.")
