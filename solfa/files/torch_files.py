"""Read torch files without running any code in them."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

_CODE = re.compile(r"GLOBAL (\S+)")
"""How torch names the code that a file wants to call."""


StandIns = Callable[[str], Any]
"""Returns what to use for the code that a file names, or None to refuse it."""


def read_plain(path: Path, *, mmap: bool = False, stand_ins: StandIns | None = None) -> Any:
    """Read tensors and plain values to the CPU; ValueError says in a few words what was found instead.

    If a file names code, `stand_ins` may give something harmless to use in its place; the code itself is never run.
    """
    import torch  # here, so that this package can be used without torch

    try:
        used = _stand_ins(path, stand_ins) if stand_ins is not None else []
        # Torch keeps this list for the whole process, so leave it alone if there is nothing to add.
        with torch.serialization.safe_globals(used) if used else nullcontext():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (MemoryError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:
        # Other bytes fail anywhere inside torch: with a KeyError, a UnicodeDecodeError, an OSError. Its message is not
        # repeated here, because it recommends reading the file unsafely.
        code = _CODE.search(str(error))
        raise ValueError(
            f"code in it ({code[1]}), which Solfa will not run" if code else "another kind of file, or a damaged one"
        ) from error


def _stand_ins(path: Path, stand_ins: StandIns) -> list[Any]:
    """List what to use for the code that a file names, as torch takes it."""
    import torch

    chosen = ((stand_ins(name), name) for name in torch.serialization.get_unsafe_globals_in_checkpoint(path))
    return [(instead, name) for instead, name in chosen if instead is not None]
