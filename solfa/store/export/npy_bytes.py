"""Convert arrays to and from the bytes of .npy files, never with pickle."""

import io
from typing import Any

import numpy as np

from solfa.errors import StoreError


def npy_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Serialise an array in C order, the same way every time."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def parse_npy(content: bytes, where: str) -> np.ndarray[Any, Any]:
    """Read an array; anything but a complete .npy file is an error."""
    file = io.BytesIO(content)
    try:
        array: np.ndarray[Any, Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, SyntaxError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"{where}: not a readable .npy file of {len(content)} bytes ({reason})") from None
    return array
