"""WebDataset tars, well-formed and not."""

import io
import json
import tarfile
import tracemalloc

import numpy as np
import pytest
import soundfile
from hostile import encoded, tone

from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.location import locate_recording
from solfa.errors import ConfigError

FLAC = encoded(tone(500), format="FLAC")


def add(archive, name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    archive.addfile(info, io.BytesIO(content))


def write_tar(path, members, format=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=format) as archive:
        for name, content in members:
            add(archive, name, content)


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_members_are_read_in_place_with_their_captions(tmp_path, format):
    audio = [tone(400 + 100 * i) for i in range(3)]
    members = []
    for i, samples in enumerate(audio):
        members += [
            (f"a/{i:03}.flac", encoded(samples, format="FLAC")),
            (f"a/{i:03}.json", b'{"index": %d}' % i),
            (f"a/{i:03}.txt", b"clip %d" % i),
        ]
    write_tar(tmp_path / "shard.tar", members, format)
    source = open_source(tmp_path / "shard.tar")
    found = list(source.recordings())
    assert [recording.key for recording in found] == [f"shard.tar/a/{i:03}.flac" for i in range(3)]
    status = (tmp_path / "shard.tar").stat()
    for i, recording in enumerate(found):
        assert recording.caption == f"clip {i}" and recording.metadata["index"] == i
        assert (recording.size_bytes, recording.mtime_ns) == (status.st_size, status.st_mtime_ns)
        location = locate_recording(source.root, recording)
        assert location.format_hint == ".flac"
        content = members[3 * i][1]
        assert (tmp_path / "shard.tar").read_bytes()[location.offset :][: location.size] == content
        samples = read_span(location, probe(location), 0, len(audio[i]), 16000, 1)
        assert np.array_equal(samples[0], soundfile.read(io.BytesIO(content), dtype="float32")[0])


def test_names_with_dots_find_their_sidecar(tmp_path):
    write_tar(
        tmp_path / "x.tar",
        [("./s.mix.flac", FLAC), ("./s.json", b'{"a": 1}'), ("./t.v1.flac", FLAC), ("./t.v1.json", b'{"a": 2}')],
    )
    found = {recording.key: recording.metadata for recording in open_source(tmp_path / "x.tar").recordings()}
    assert found == {"x.tar/s.mix.flac": {"a": 1}, "x.tar/t.v1.flac": {"a": 2}}


def test_members_that_lead_out_or_are_not_files_are_refused_one_by_one(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        add(archive, "/etc/abs.wav", FLAC)
        add(archive, "a/../../up.wav", FLAC)
        add(archive, "link.wav", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(archive, "hard.wav", type=tarfile.LNKTYPE, linkname="ok.flac")
        add(archive, "dev.wav", type=tarfile.CHRTYPE)
        add(archive, "passwd", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(archive, "folder.wav", type=tarfile.DIRTYPE)
        add(archive, ".hidden.wav", FLAC)
        add(archive, "ok.flac", FLAC)
    found = {recording.member: recording.error for recording in open_source(tmp_path / "x.tar").recordings()}
    assert set(found) == {"/etc/abs.wav", "a/../../up.wav", "link.wav", "hard.wav", "dev.wav", "ok.flac"}
    assert found["ok.flac"] is None
    assert "leads out" in found["/etc/abs.wav"] and "leads out" in found["a/../../up.wav"]
    assert all("link, a device" in found[name] for name in ("link.wav", "hard.wav", "dev.wav"))


def test_repeated_members_get_numbers_and_odd_names_are_escaped(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", FLAC), ("a.flac", FLAC), ("n\nl\udcff.flac", FLAC)], tarfile.GNU_FORMAT)
    keys = [recording.key for recording in open_source(tmp_path / "x.tar").recordings()]
    assert keys == ["x.tar/a.flac", "x.tar/a.flac#2", "x.tar/n%0Al%FF.flac"]


def test_broken_sidecar_in_a_tar_is_reported(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", FLAC), ("a.json", b"{"), ("a.txt", b"caption")])
    (recording,) = open_source(tmp_path / "x.tar").recordings()
    assert recording.caption == "caption" and recording.metadata["sidecar_error"].startswith(".json: ")


def test_truncated_or_damaged_tar_keeps_what_came_before(tmp_path):
    write_tar(tmp_path / "x.tar", [("a.flac", FLAC), ("b.flac", FLAC)])
    content = (tmp_path / "x.tar").read_bytes()
    second = content.index(b"b.flac")
    (tmp_path / "cut.tar").write_bytes(content[: second + 512 + 100])
    first, cut, end = open_source(tmp_path / "cut.tar").recordings()
    assert first.error is None and "bytes before" in cut.error and "damaged" in end.error
    (tmp_path / "bad.tar").write_bytes(content[:second] + b"\xff" * 512 + content[second + 512 :])
    first, bad = open_source(tmp_path / "bad.tar").recordings()
    assert first.error is None and "damaged" in bad.error


def test_tar_that_claims_a_huge_header_is_refused(tmp_path):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 2**33
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))
    (recording,) = open_source(tmp_path / "x.tar").recordings()
    assert "damaged" in recording.error


def test_folder_of_tars_and_audio_gives_both(tmp_path):
    write_tar(tmp_path / "b.tar", [("x.flac", FLAC)])
    (tmp_path / "a.flac").write_bytes(FLAC)
    (tmp_path / "c.flac").write_bytes(FLAC)
    (tmp_path / "d.tar.gz").write_bytes(b"\x1f\x8b\x08")
    found = {recording.key: recording.error for recording in open_source(tmp_path).recordings()}
    assert list(found) == ["a.flac", "b.tar/x.flac", "c.flac", "d.tar.gz"]
    assert [error is None for error in found.values()] == [True, True, True, False]
    assert "is compressed" in found["d.tar.gz"]


def test_numbered_tars_are_one_source(tmp_path):
    for i in range(8, 12):
        write_tar(tmp_path / f"s-{i:03}.tar", [(f"{i}.flac", FLAC)])
    source = open_source(f"{tmp_path}/s-{{008..011}}.tar")
    assert [recording.key for recording in source.recordings()] == [f"s-{i:03}.tar/{i}.flac" for i in range(8, 12)]
    assert probe(locate_recording(source.root, next(source.recordings()))).num_samples == 500
    with pytest.raises(ConfigError, match=r"s-012\.tar: no such file"):
        open_source(f"{tmp_path}/s-{{008..012}}.tar")


def test_listing_a_tar_does_not_hold_its_metadata(tmp_path):
    note = json.dumps({"note": "x" * 50_000}).encode()
    write_tar(tmp_path / "x.tar", [(f"{i // 2:03}.{'json' if i % 2 else 'wav'}", note) for i in range(600)])
    peaks = []
    for _ in range(3):  # what else allocates in this process, a thread or a first import, does so once
        tracemalloc.start()
        num_recordings = sum(len(recording.metadata) for recording in open_source(tmp_path / "x.tar").recordings())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert num_recordings == 300 and min(peaks) < 5_000_000 < 300 * len(note)
