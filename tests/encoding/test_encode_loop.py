"""Batches reach the codec whole, in the order of the plan, whatever could be read of them."""

from typing import NamedTuple

from solfa.audio.probe import probe_recording
from solfa.audio.sources.choice import open_source
from solfa.encoding.clip_plan import clips_of
from solfa.encoding.encode_loop import encoded_batches
from solfa.encoding.read_ahead import DecodeAhead, Target


class Place(NamedTuple):
    number: int
    is_last: bool


def test_a_batch_ends_with_the_clip_that_is_its_last(audio_folder):
    (audio_folder / "broken.wav").write_bytes(b"RIFF")
    recordings = list(open_source(audio_folder).recordings())
    clips = [clip for one in recordings for clip in clips_of(one, probe_recording(audio_folder, one), 0.0, 16_000)]
    ends = {1, 2, len(clips) - 1}
    places = [(Place(number, number in ends), clip) for number, clip in enumerate(clips)]
    with DecodeAhead(Target(audio_folder, 16_000, 1), 0) as ahead:
        batches = list(encoded_batches(ahead, places, lambda batch: [decoded.clip.id for decoded in batch]))
    assert [[decoded.label.number for decoded in batch.clips] for batch in batches] == [
        [0, 1],
        [2],
        list(range(3, len(clips))),
    ]
    assert [name for batch in batches for name in batch.result] == [clip.id for clip in clips]
    failed = [decoded for batch in batches for decoded in batch.clips if decoded.audio is None]
    assert [decoded.clip.key for decoded in failed] == ["broken.wav"] and failed[0].error
    assert all(0 <= batch.codec_seconds <= batch.wall_seconds for batch in batches)
