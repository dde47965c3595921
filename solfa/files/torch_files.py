"""Files of torch, read without running any code that they hold."""

import re
from pathlib import Path
from typing import Any

_CODE = re.compile(r"GLOBAL (\S+)")
"""How torch names what a file wants to call."""


def read_plain(path: Path, *, mmap: bool = False) -> Any:
    """Read tensors and plain values to the CPU; ValueError says in a few words what else the file is."""
    import torch  # here, because this package is also for those who need no torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (MemoryError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:
        # Bytes that are no torch file fail anywhere in torch: a KeyError, a UnicodeDecodeError, an OSError. What it
        # says of them is not repeated: it recommends to read the file unsafely.
        code = _CODE.search(str(error))
        raise ValueError(
            f"code in it ({code[1]}), which is not run" if code else "another file, or a damaged one"
        ) from error
