"""A TensorFlow checkpoint is read as it was written, and one that is damaged is refused."""

import struct
from pathlib import Path

import numpy as np
import pytest

from solfa.errors import ConfigError
from solfa.pretrained.tensorflow import masked_crc32c, read_tensorflow

VARIABLES = {
    "conv/bias": np.arange(3, dtype=np.float32),
    "conv/kernel": np.random.default_rng(0).normal(size=(7, 2, 1, 3)).astype(np.float32),
    "conv/kernel/Adam": np.zeros((300,), np.float64),
    "step": np.array(77, np.int64),
}
DTYPES = {"float32": 1, "float64": 2, "int64": 9}


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Write keys as what they do not share with the one before, as LevelDB does."""
    out, before = b"", b""
    for key, value in entries:
        shared = next((i for i, pair in enumerate(zip(key, before, strict=False)) if pair[0] != pair[1]), None)
        shared = min(len(key), len(before)) if shared is None else shared
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    content = out + struct.pack("<II", 0, 1)
    return content + b"\0" + struct.pack("<I", masked_crc32c(content + b"\0"))


def write_checkpoint(folder: Path, name: str = "model") -> Path:
    """Write `VARIABLES` in two data files and an index of two blocks."""
    folder.mkdir(exist_ok=True)
    shards, entries = [b"", b""], [(b"", b"\x08\x02")]
    for number, (variable, values) in enumerate(sorted(VARIABLES.items())):
        shard, content = number % 2, values.tobytes()
        dims = b"".join(b"\x12" + varint(len(d)) + d for d in (b"\x08" + varint(size) for size in values.shape))
        fields = b"\x08" + varint(DTYPES[str(values.dtype)]) + b"\x12" + varint(len(dims)) + dims
        fields += b"\x18" + varint(shard) + b"\x20" + varint(len(shards[shard])) + b"\x28" + varint(len(content))
        entries.append((variable.encode(), fields + b"\x35abcd"))
        shards[shard] += content
    for number, content in enumerate(shards):
        (folder / f"{name}.data-{number:05d}-of-00002").write_bytes(content)
    index, handles = b"", []
    for part in (entries[:3], entries[3:]):
        written = block(part)
        handles.append((part[-1][0], varint(len(index)) + varint(len(written) - 5)))
        index += written
    top = block(handles)
    footer = varint(0) + varint(0) + varint(len(index)) + varint(len(top) - 5)
    content = index + top + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    (folder / f"{name}.index").write_bytes(content)
    return folder


def test_variables_come_back_as_they_were_written(tmp_path):
    found = read_tensorflow(write_checkpoint(tmp_path), "model")
    assert found.keys() == VARIABLES.keys()
    for name, values in VARIABLES.items():
        assert found[name].dtype == values.dtype and np.array_equal(found[name], values)


def test_the_checksum_is_the_published_one():
    """CRC-32C of 32 zeros is 0x8a9136aa (RFC 3720), before it is masked."""
    plain = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("place", [5, 40, -1])
def test_a_damaged_index_is_refused(tmp_path, place):
    path = write_checkpoint(tmp_path) / "model.index"
    content = bytearray(path.read_bytes())
    content[place] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="index of a TensorFlow checkpoint"):
        read_tensorflow(tmp_path, "model")


def test_data_that_were_cut_off_are_refused(tmp_path):
    path = write_checkpoint(tmp_path) / "model.data-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=r"data-00001.*copy it again"):
        read_tensorflow(tmp_path, "model")
    with pytest.raises(ConfigError, match="index"):
        read_tensorflow(tmp_path, "another")
