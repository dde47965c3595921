"""Models of how people judge a copy of a sound: ViSQOL for any audio, PESQ and STOI for speech.

ViSQOL in its audio mode hears 48 kHz (Chinen et al. 2020); PESQ (wide band) and STOI hear 16 kHz. They come with
`pip install 'solfa[eval]'`.
"""

import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.errors import ConfigError

VISQOL_RATE, SPEECH_RATE = 48_000, 16_000
TOO_FEW_FRAMES = 1e-5
"""What pystoi answers (with a warning) where it finds too little speech; PESQ answers -1."""
PACKAGES = {"visqol": "visqol-python", "pesq": "pesq", "stoi": "pystoi"}
"""Which package has a measure."""

Mono = NDArray[np.float32]


def expect_package(measure: str) -> str:
    """Return the version of the package of a measure, or say how to install it."""
    try:
        return version(PACKAGES[measure])
    except PackageNotFoundError as error:
        raise ConfigError(
            f"`metrics={measure}`: the package {error.name} is missing; run pip install 'solfa[eval]'"
        ) from None


def visqol(reference: Mono, decoded: Mono) -> float:
    """Predict a mean opinion score at 48 kHz, 1 to about 4.73 (identity)."""
    if not np.any(decoded):
        return 1.0  # it scales the decoded sound to the level of the reference, which silence does not have
    return float(_visqol().measure_from_arrays(reference, decoded, VISQOL_RATE).moslqo)


@cache
def _visqol() -> Any:
    from visqol import VisqolApi  # type: ignore[import-untyped,unused-ignore,import-not-found]

    api: Any = VisqolApi()
    api.create(mode="audio")
    return api


def pesq_quality(reference: Mono, decoded: Mono) -> float | None:
    """Predict a mean opinion score of speech at 16 kHz; None where there is too little of it."""
    from pesq import PesqError, pesq  # type: ignore[import-untyped,unused-ignore,import-not-found]

    found = float(pesq(SPEECH_RATE, reference, decoded, "wb", on_error=PesqError.RETURN_VALUES))
    return None if found < 0 else found


def stoi_intelligibility(reference: Mono, decoded: Mono) -> float | None:
    """Predict which share of speech at 16 kHz is understood; None where there is too little of it."""
    from pystoi import stoi  # type: ignore[import-untyped,unused-ignore,import-not-found]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Not enough STFT frames")
        found = float(stoi(reference, decoded, SPEECH_RATE))
    return None if found == TOO_FEW_FRAMES else found
