"""Decoded files are named after their clips, and stay where they belong."""

from pathlib import PurePosixPath

import pytest

from solfa.encoding.decoding import file_name


@pytest.mark.parametrize(
    ("clip_id", "name"),
    [
        ("a/b.wav", "a/b.wav"),
        ("a/b.flac", "a/b.flac.wav"),
        ("a/b.wav@00030.000", "a/b.wav@00030.000.wav"),
        ("../../etc/passwd", "etc/passwd.wav"),
        ("/absolute", "absolute.wav"),
        ("..", "clip.wav"),
    ],
)
def test_a_clip_is_written_below_the_output_folder(clip_id, name):
    assert file_name(clip_id, ".wav") == PurePosixPath(name)
