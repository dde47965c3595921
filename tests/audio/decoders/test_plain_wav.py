"""Plain WAV files give the numbers that libsndfile gives, and whatever is not plain is left to it."""

import io
import struct

import numpy as np
import pytest
import soundfile

from solfa.audio.decoders import plain_wav, sndfile
from solfa.audio.decoders.byte_range import open_range
from solfa.audio.recording import Location
from tests.audio.hostile import encoded, tone

PCM = encoded(tone(3000, 2))
FLOAT = encoded(tone(3000, 2), subtype="FLOAT")  # with the chunks fact and PEAK


def with_chunk(name: bytes, content: bytes, wav: bytes = PCM) -> bytes:
    """Put a chunk before the samples, and count it."""
    spoken = name + struct.pack("<I", len(content)) + content
    return wav[:4] + struct.pack("<I", len(wav) + len(spoken) - 8) + wav[8:36] + spoken + wav[36:]


def patched(position: int, layout: str, value: int, wav: bytes = PCM) -> bytes:
    content = bytearray(wav)
    struct.pack_into(layout, content, position, value)
    return bytes(content)


EIGHTEEN = patched(16, "<I", 18, patched(4, "<I", len(PCM) - 6))[:36] + b"\0\0" + PCM[36:]


def opened(tmp_path, content: bytes):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    return open_range(Location(path))


PLAIN = {
    "16 bits": PCM,
    "one channel": encoded(tone(501)),
    "floats": FLOAT,
    "beyond full scale": encoded(3 * tone(100), subtype="FLOAT"),
    "longer than what is read at once": encoded(tone(40_000, 2)),
    "ffmpeg's list": with_chunk(b"LIST", b"INFOISFT\x0e\0\0\0Lavf60.16.100\0"),
    "a format of 18 bytes": EIGHTEEN,
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_plain_files_read_as_libsndfile_reads_them(tmp_path, content):
    whole, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    with opened(tmp_path, content) as file:
        info = plain_wav.measure(file)
        assert info is not None and info == sndfile.measure(file)
        assert (info.sample_rate, info.num_samples) == (rate, len(whole))
        for start, stop in ((0, len(whole)), (17, 18), (len(whole) // 3, len(whole))):
            found = plain_wav.decode(file, info, start, stop)
            assert found is not None and found.dtype == np.float32
            assert np.array_equal(found, whole[start:stop])


OTHER = {
    "24 bits": encoded(tone(100), subtype="PCM_24"),
    "8 bits": encoded(tone(100), subtype="PCM_U8"),
    "extensible": encoded(tone(100), format="WAVEX"),
    "flac": encoded(tone(100), format="FLAC"),
    "cut off": PCM[:-4],
    "a size too small": patched(4, "<I", 40),
    "a size of a stream": patched(4, "<I", 0xFFFFFFFF),
    "no size of the samples": patched(40, "<I", 0),
    "samples that end early": patched(40, "<I", len(PCM) - 48),
    "half a sample": patched(40, "<I", len(PCM) - 45)[:-1],
    "another block": patched(32, "<H", 8),
    "another byte rate": patched(28, "<I", 5),
    "no channels": patched(22, "<H", 0),
    "no rate": patched(24, "<I", 0),
    "a chunk after the samples": patched(4, "<I", len(PCM) + 4) + b"LIST\x04\0\0\0INFO",
    "a chunk that means something": with_chunk(b"smpl", bytes(36)),
    "a list of something": with_chunk(b"LIST", b"adtl"),
    "a chunk beyond what is read at once": with_chunk(b"LIST", b"INFO" + bytes(9000)),
    "a chunk of an odd size": with_chunk(b"LIST", b"INFO\0"),
    "nothing but a header": PCM[:44],
    "less than a header": PCM[:30],
}


@pytest.mark.parametrize("content", OTHER.values(), ids=OTHER)
def test_what_is_not_plain_is_left_alone(tmp_path, content):
    with opened(tmp_path, content) as file:
        assert plain_wav.measure(file) is None


def test_a_file_that_is_not_what_was_measured_is_left_alone(tmp_path):
    with opened(tmp_path, PCM) as file:
        info = plain_wav.measure(file)
    assert info is not None
    with opened(tmp_path, encoded(tone(2999, 2))) as file:
        assert plain_wav.decode(file, info, 0, 10) is None
        assert plain_wav.decode(file, info._replace(format="FLAC/PCM_16"), 0, 10) is None
