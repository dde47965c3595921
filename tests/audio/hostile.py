"""Make a folder of audio that has gone wrong in every way we know: `python tests/audio/hostile.py DIR`."""

import io
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile

from solfa.files.printable_names import escape_path

Outcome = Literal["ok", "failed"]
Content = bytes | Callable[[Path], None]

RATE = 16000


def tone(num_samples: int = RATE, num_channels: int = 1, rate: int = RATE) -> np.ndarray[Any, Any]:
    """Two tones and a little noise, `[N, C]`, the same every time."""
    seconds = np.arange(num_samples)[:, None] / rate
    noise = np.random.default_rng(0).standard_normal((num_samples, num_channels))
    phases = np.arange(num_channels)
    wave = np.sin(2 * np.pi * 220 * seconds + phases) + np.sin(2 * np.pi * 331 * seconds * (1 + seconds))
    return (0.3 * wave + 0.02 * noise).astype(np.float32)


def encoded(audio: np.ndarray[Any, Any], rate: int = RATE, format: str = "WAV", **options: Any) -> bytes:
    """Encode `[N, C]` audio in memory."""
    file = io.BytesIO()
    soundfile.write(file, audio, rate, format=format, **options)
    return file.getvalue()


def wav_with_sizes(riff: int, data: int) -> bytes:
    """Spoil the two sizes of a 16-bit WAV."""
    content = bytearray(encoded(tone(), subtype="PCM_16"))
    position = content.index(b"data") + 4
    content[4:8] = struct.pack("<I", riff)
    content[position : position + 4] = struct.pack("<I", data)
    return bytes(content)


def flac_with_total(num_samples: int, rate: int | None = None) -> bytes:
    """Let the STREAMINFO block of a FLAC claim another length (36 bits) and rate (20 bits)."""
    content = bytearray(encoded(tone(), format="FLAC"))
    fields = int.from_bytes(content[18:26], "big")
    fields = fields >> 36 << 36 | num_samples
    if rate is not None:
        fields = fields & (1 << 44) - 1 | rate << 44
    content[18:26] = fields.to_bytes(8, "big")
    return bytes(content)


def liars(num_samples: int = 600_000) -> dict[str, bytes]:
    """Make sound files that are large enough to be believed, whose headers claim thousands of times what is there."""
    noise = 0.3 * np.random.default_rng(2).standard_normal((num_samples, 1)).astype(np.float32)
    wav, aiff, rf64 = (bytearray(encoded(noise, format=name, subtype="PCM_16")) for name in ("WAV", "AIFF", "RF64"))
    wav[4:8] = wav[40:44] = struct.pack("<I", 0x7FFE0000)
    position = aiff.index(b"COMM") + 10
    aiff[position : position + 4] = struct.pack(">I", 2**32 - 1)
    position = rf64.index(b"ds64") + 8
    rf64[position : position + 24] = struct.pack("<QQQ", 2**34, 2**34, 2**33)
    mp3 = bytearray(encoded(noise, format="MP3"))
    position = mp3.index(b"Xing") + 8
    mp3[position : position + 4] = struct.pack(">I", 2**20)
    flac = bytearray(encoded(noise, format="FLAC"))
    flac[18:26] = (int.from_bytes(flac[18:26], "big") >> 36 << 36 | 2**33).to_bytes(8, "big")
    contents = {"wav": wav, "aiff": aiff, "rf64.wav": rf64, "mp3": mp3, "flac": flac}
    return {f"claims.{name}": bytes(content) for name, content in contents.items()}


def with_value(value: float, subtype: str = "FLOAT") -> bytes:
    """Put one odd value into a second of sound."""
    audio = tone().astype(np.float64)
    audio[5000] = value
    return encoded(audio, subtype=subtype)


def id3_picture(num_bytes: int) -> bytes:
    """Make an ID3v2 tag that holds a picture."""
    frame = b"APIC" + struct.pack(">IH", num_bytes, 0) + bytes(num_bytes)
    size = len(frame)
    return b"ID3\x03\x00\x00" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + frame


def variable_mp3(num_samples: int = 3 * RATE) -> bytes:
    """Make an mp3 of variable bit rate."""
    return encoded(tone(num_samples, 2), format="MP3", bitrate_mode="VARIABLE", compression_level=0.5)


def without_xing(mp3: bytes) -> bytes:
    """Drop the first frame of an MPEG-2 mp3, which says how many follow."""
    bitrates = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
    assert mp3[:2] == b"\xff\xf3" and b"Xing" in mp3[:64]
    return mp3[72 * bitrates[mp3[2] >> 4] * 1000 // RATE + (mp3[2] >> 1 & 1) :]


def half(content: bytes) -> bytes:
    """Cut a file in half."""
    return content[: len(content) // 2]


def _contents() -> dict[bytes, tuple[Content, Outcome]]:
    noise = np.random.default_rng(1).bytes(20_000)
    ogg, long = encoded(tone(), format="OGG"), tone(3 * RATE, 2)
    opus = {"format": "OGG", "subtype": "OPUS"}
    return {
        b"empty.wav": (b"", "failed"),
        b"header_only.wav": (encoded(tone(0)), "failed"),
        b"header_cut.wav": (encoded(tone())[:30], "failed"),
        b"truncated.wav": (half(encoded(long)), "failed"),
        b"truncated.aiff": (half(encoded(long, format="AIFF")), "failed"),
        b"truncated.flac": (half(encoded(long, format="FLAC")), "failed"),
        b"truncated.mp3": (half(variable_mp3()), "failed"),
        # An Ogg stream does not say how long it will be: what is there is all it promised.
        b"truncated.ogg": (half(encoded(long, format="OGG")), "ok"),
        b"truncated.opus": (half(encoded(long, **opus)), "ok"),
        b"riff_size_0.wav": (wav_with_sizes(0, 2 * RATE), "ok"),
        b"riff_and_data_size_0.wav": (wav_with_sizes(0, 0), "ok"),
        b"riff_size_max.wav": (wav_with_sizes(0xFFFFFFFF, 0xFFFFFFFF), "ok"),
        b"flac_named.wav": (encoded(tone(), format="FLAC"), "ok"),
        b"wav_named.mp3": (encoded(tone()), "ok"),
        b"mp3_named.ogg": (variable_mp3(), "ok"),
        b"text_named.wav": (b"this is not audio, whatever its name says\n" * 50, "failed"),
        b"random.wav": (b"RIFF\x00\x00\x10\x00WAVEfmt \x10\x00\x00\x00" + noise, "failed"),
        b"random.flac": (b"fLaC" + noise, "failed"),
        b"random.ogg": (b"OggS" + noise, "failed"),
        b"random.mp3": (b"ID3\x03\x00\x00\x00\x00\x00\x00" + noise, "failed"),
        b"random.aiff": (b"FORM\x00\x00\x10\x00AIFF" + noise, "failed"),
        b"random.m4a": (b"\x00\x00\x00\x20ftypM4A " + noise, "failed"),
        b"nan.wav": (with_value(float("nan")), "failed"),
        b"inf.wav": (with_value(float("inf")), "failed"),
        b"too_large_for_float32.wav": (with_value(1e300, "DOUBLE"), "failed"),
        b"denormal.wav": (encoded(np.full((RATE, 1), 1e-40, np.float32), subtype="FLOAT"), "ok"),
        b"beyond_full_scale.wav": (with_value(4.0), "ok"),
        b"dc.wav": (encoded(np.full((RATE, 1), 0.5, np.float32)), "ok"),
        b"silence.flac": (encoded(np.zeros((10 * RATE, 2), np.float32), format="FLAC"), "ok"),
        b"one_sample.wav": (encoded(tone(1)), "ok"),
        b"ten_samples.flac": (encoded(tone(10), format="FLAC"), "ok"),
        b"unsigned_8_bit.wav": (encoded(tone(), subtype="PCM_U8"), "ok"),
        b"24_bit.wav": (encoded(tone(), subtype="PCM_24"), "ok"),
        b"32_bit.wav": (encoded(tone(), subtype="PCM_32"), "ok"),
        b"64_bit.wav": (encoded(tone(), subtype="DOUBLE"), "ok"),
        b"mu_law.wav": (encoded(tone(), subtype="ULAW"), "ok"),
        b"adpcm.wav": (encoded(tone(), subtype="IMA_ADPCM"), "ok"),
        b"8_khz.wav": (encoded(tone(8000, 1, 8000), 8000), "ok"),
        b"192_khz.wav": (encoded(tone(192_000, 1, 192_000), 192_000), "ok"),
        b"8_channels.wav": (encoded(tone(RATE, 8)), "ok"),
        b"variable_rate.mp3": (variable_mp3(), "ok"),
        b"variable_rate_without_length.mp3": (without_xing(variable_mp3()), "ok"),
        b"joined.mp3": (variable_mp3() + variable_mp3(), "ok"),
        b"chained.ogg": (ogg + encoded(tone(RATE // 2), format="OGG"), "ok"),
        b"chained.opus": (encoded(tone(), **opus) + encoded(tone(RATE // 2), **opus), "ok"),
        b"chained_unlike.ogg": (ogg + encoded(tone(RATE, 2), format="OGG"), "failed"),
        b"huge_picture.mp3": (id3_picture(5_000_000) + variable_mp3(), "ok"),
        b"claims_2_31_seconds.flac": (flac_with_total(2**31, 1), "failed"),
        b"claims_2_36_samples.flac": (flac_with_total(2**36 - 1), "failed"),
        b"claims_ten_times_more.flac": (flac_with_total(10 * RATE), "failed"),
        b"without_length.flac": (flac_with_total(0), "failed"),
        b"newline\nand\ttab.wav": (encoded(tone()), "ok"),
        b"per%cent.wav": (encoded(tone()), "ok"),
        b"not_utf8_\xff\xfe.wav": (encoded(tone()), "ok"),
        "Größe 歌.wav".encode(): (encoded(tone()), "ok"),
        b"case.wav": (encoded(tone(1000)), "ok"),
        b"CASE.WAV": (encoded(tone(2000)), "ok"),
        b"folder.wav/inside.wav": (encoded(tone()), "ok"),
        b"dangling.wav": (lambda path: path.symlink_to("nowhere.wav"), "failed"),
        b"link_to_itself.wav": (lambda path: path.symlink_to(path.name), "failed"),
        b"linked.wav": (lambda path: path.symlink_to("case.wav"), "ok"),
        b"fifo.wav": (os.mkfifo, "failed"),
    }


def make_hostile_corpus(folder: Path) -> dict[str, Outcome]:
    """Write the corpus; return what must happen to each file, by its escaped relative name."""
    expected: dict[str, Outcome] = {}
    for name, (content, outcome) in _contents().items():
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
        expected[escape_path(path.relative_to(folder))] = outcome
    # Neither of these is a recording: a folder that contains itself, and a file that is hidden.
    (folder / "loop").symlink_to(".")
    (folder / ".hidden.wav").write_bytes(encoded(tone()))
    if os.geteuid() != 0:
        (folder / "forbidden.wav").write_bytes(encoded(tone()))
        (folder / "forbidden.wav").chmod(0)
        expected["forbidden.wav"] = "failed"
    return expected


if __name__ == "__main__":
    for found, must in sorted(make_hostile_corpus(Path(sys.argv[1])).items()):
        sys.stdout.write(f"{must}\t{found}\n")
