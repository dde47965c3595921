"""What was found out about this machine by trying, kept beside the compiled kernels.

A file's name has a digest of everything that the finding may depend on: what was asked, the processor, the versions and
the variables that libraries read when they choose their code. It is created once and never changed; remove it to have
it found out again.
"""

import json
import logging
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from solfa.environment.processor import describe_processor
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.json_objects import parse_object, read_object
from solfa.files.whole_files import create_once
from solfa.nn.kernels.library import cache_folder
from solfa.version import __version__

_logger = logging.getLogger(__name__)

_VARIABLES = ("ATEN_", "ONEDNN_", "DNNL_", "MKL_", "OPENBLAS_")


def finding_file(name: str, *asked: object) -> Path:
    """Name the file of a finding on this machine, with these versions, settings and this number of threads."""
    facts = [asked, *_processor_and_versions(), *_torch_settings(), _settings()]
    return cache_folder() / f"{name}-{value_sha256(facts)[:16]}.json"


def recall(path: Path) -> dict[str, Any] | None:
    """Read a finding; None if there is none yet."""
    found = read_object(path, ConfigError, advice="remove it, and it is made again") if path.exists() else None
    if found is not None and not found:
        raise ConfigError(f"{path}: expected a finding, found an empty object; remove it, and it is made again")
    return found


def remember(path: Path, finding: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a finding for the processes to come, and return what is kept: another process may have been first.

    Where nothing can be kept, every process finds out for itself.
    """
    content = json.dumps(finding, indent=1)
    try:
        create_once(path.parent, path, content.encode())
    except OSError as error:
        _logger.info("not remembered for this machine: %s", error)
    return recall(path) or parse_object(content)


@cache
def _processor_and_versions() -> tuple[object, ...]:
    built = (torch.__version__, torch.__config__.show(), torch.backends.cpu.get_cpu_capability())
    return describe_processor(), *built, __version__


def _torch_settings() -> tuple[object, ...]:
    """What a process may set that changes how convolutions and products are computed."""
    onednn: Any = torch.backends.mkldnn
    precisions = [
        getattr(getattr(onednn, name, None), "fp32_precision", None)  # newer than the oldest torch that is allowed
        for name in ("conv", "matmul")
    ]
    return torch.get_num_threads(), bool(onednn.enabled), *precisions


def _settings() -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES))
