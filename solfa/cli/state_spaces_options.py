"""Options as state-spaces' generate script takes them, `temp=0.8 n_samples=10`, answered with the command to type."""

import shlex
from collections.abc import Collection, Mapping, Sequence

from solfa.config import nearest
from solfa.errors import ConfigError

_RATE = 16_000
"""Samples a second, as that script assumes."""
_FLAGS = {
    "temp": "--temperature",
    "n_samples": "--num",
    "top_p": "--top-p",
    "save_dir": "--out",
    "l_sample": "--seconds",
    "l_prefix": "--prompt-seconds",
    "train.seed": "--seed",
}
_MODELS = ("checkpoint_path", "experiment_path", "experiment")
_NOT_NEEDED = ("n_batch", "load_data", "decode", "test_model", "split")


def refuse_key_values(words: Sequence[str], own: Collection[str]) -> None:
    """Refuse arguments such as `temp=0.8`, with the whole command as flags; `own` are the command's flags."""
    typed = {key: value for key, equals, value in (word.partition("=") for word in words) if equals}
    others = [word for word in words if "=" not in word]
    known = {**{flag.removeprefix("--").replace("-", "_"): flag for flag in own}, **_FLAGS}
    for key in typed:
        if key not in {*known, *_MODELS, *_NOT_NEEDED, "n_reps"}:
            flag = nearest(key, known)
            raise ConfigError(
                f"{key}={typed[key]}: expected options as flags, such as --seconds 2{flag or '; see --help'}"
            )
    if len(others) > 1:
        raise ConfigError(f"{others[1]}: expected one model, found {others[0]} before it; generate with one at a time")
    if typed:
        model = others[0] if others else next((typed[key] for key in _MODELS[:2] if key in typed), "SIG")
        raise ConfigError(f"{' '.join(words)}: options are flags here; type: {_command(model, typed, known)}")


def _command(model: str, typed: Mapping[str, str], known: Mapping[str, str]) -> str:
    parts = ["solfa", "generate", model]
    for key, value in typed.items():
        if key in ("l_sample", "l_prefix") and value.isdecimal():
            if key == "l_prefix" and int(value):
                parts += ["--prompt", "FILE"]
            parts += [known[key], f"{int(value) / _RATE:g}"] if int(value) else []
        elif key == "n_samples" and value.isdecimal() and typed.get("n_reps", "1").isdecimal():
            parts += [known[key], str(int(value) * int(typed.get("n_reps", "1")))]
        elif key in known and not (key == "top_p" and value in ("1", "1.", "1.0")):
            parts += [known[key], value]
    return shlex.join(parts)
