"""Read torch files without running any code in them."""

import re
from pathlib import Path
from typing import Any

_CODE = re.compile(r"GLOBAL (\S+)")
"""How torch names the code that a file wants to call."""


def read_plain(path: Path, *, mmap: bool = False) -> Any:
    """Read tensors and plain values to the CPU; ValueError says in a few words what was found instead."""
    import torch  # here, so that this package can be used without torch

    try:
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
