"""Read the tensors of a TensorFlow checkpoint ("V2") without TensorFlow.

    NAME.index                 a LevelDB table: sorted keys, each a variable's name, and for each a small protobuf
                               (dtype, shape, shard, offset, size); the empty key is a header
    NAME.data-00000-of-00001   the numbers of all variables, one after another

Keys are written as what they do not share with the key before; every block of the table ends with its CRC-32C.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solfa.errors import ConfigError

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
"""After each block: whether it is compressed, and its checksum."""
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 6: "i1", 9: "<i8", 10: "?", 19: "<f2"}


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


def read_tensorflow(folder: Path, name: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Read all variables of a checkpoint, `NAME.index` in a folder; the name may be empty."""
    index = folder / f"{name}.index"
    try:
        table = dict(_entries(index.read_bytes()))
    except (OSError, ValueError, struct.error, IndexError) as error:
        raise ConfigError(f"checkpoint {index}: expected the index of a TensorFlow checkpoint ({error})") from None
    header = _fields(table.pop(b"", b""))
    num_shards = int(header.get(1, 1))
    found = {}
    for key, value in table.items():
        entry = _entry(value, key)
        shard = folder / f"{name}.data-{entry.shard:05d}-of-{num_shards:05d}"
        found[key.decode()] = _read(shard, entry, key.decode())
    return found


def _read(shard: Path, entry: _Entry, name: str) -> np.ndarray[Any, Any]:
    dtype, count = np.dtype(entry.dtype), int(np.prod(entry.shape, dtype=np.int64))
    if entry.size != count * dtype.itemsize:
        raise ConfigError(f"checkpoint {shard}: {name}: expected {count} numbers, found {entry.size} bytes of them")
    if not shard.is_file() or shard.stat().st_size < entry.offset + entry.size:
        raise ConfigError(f"checkpoint {shard}: {name} is not in it; the file is missing or was cut off, copy it again")
    return np.fromfile(shard, dtype, count, offset=entry.offset).reshape(entry.shape)


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(content) < _FOOTER or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise ValueError("it does not end like one")
    _, place = _handle(content, len(content) - _FOOTER)
    (offset, size), _ = _handle(content, place)
    for _, handle in _block(content, offset, size):
        (offset, size), _ = _handle(handle, 0)
        yield from _block(content, offset, size)


def _handle(content: bytes, place: int) -> tuple[tuple[int, int], int]:
    offset, place = _varint(content, place)
    size, place = _varint(content, place)
    return (offset, size), place


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = content[offset : offset + size]
    compression, checksum = struct.unpack("<BI", content[offset + size : offset + size + _TRAILER])
    if compression:
        raise ValueError("its blocks are compressed")
    if masked_crc32c(block + bytes([compression])) != checksum:
        raise ValueError("its checksum does not match; copy the file again")
    (num_restarts,) = struct.unpack("<I", block[-4:])
    end, place, key = len(block) - 4 * (num_restarts + 1), 0, b""
    while place < end:
        shared, place = _varint(block, place)
        own, place = _varint(block, place)
        length, place = _varint(block, place)
        key = key[:shared] + block[place : place + own]
        place += own
        yield key, block[place : place + length]
        place += length


def _entry(value: bytes, key: bytes) -> _Entry:
    fields = _fields(value)
    dtype = _DTYPES.get(int(fields.get(1, 0)))
    if dtype is None or 7 in fields:
        raise ConfigError(f"checkpoint: {key.decode(errors='replace')}: a variable of a kind that cannot be read here")
    shape = _fields(fields.get(2, b""), repeated=2).get(2, [])
    sizes = tuple(int(_fields(dimension).get(1, 0)) for dimension in shape)
    return _Entry(dtype, sizes, int(fields.get(3, 0)), int(fields.get(4, 0)), int(fields.get(5, 0)))


def _fields(message: bytes, repeated: int | None = None) -> Mapping[int, Any]:
    """Read the fields of a protobuf message by number; of the one that is repeated, all."""
    fields: dict[int, Any] = {}
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        value: Any
        if kind == 0:
            value, place = _varint(message, place)
        elif kind == 2:
            length, place = _varint(message, place)
            value, place = message[place : place + length], place + length
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value, place = message[place : place + width], place + width
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if number == repeated:
            fields.setdefault(number, []).append(value)
        else:
            fields[number] = value
    return fields


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def masked_crc32c(content: bytes) -> int:
    """Return the CRC-32C of some bytes, turned and shifted as LevelDB stores it."""
    register = 0xFFFFFFFF
    for byte in content:
        register = _CRC_TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    value = register ^ 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC_TABLE = tuple(_crc_of_byte(byte) for byte in range(256))
