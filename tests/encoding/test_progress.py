"""What a run tells adds up."""

from solfa.encoding.progress import Progress, Totals


def test_totals_add_up_and_the_span_runs_from_the_first_clip_to_the_last():
    totals = Totals()
    totals.add(Progress(clips=2, failed=["a"], seconds=10.0, codec_seconds=1.0, wall_seconds=2.0), now=102.0)
    totals.add(Progress(clips=1, failed=["a"], seconds=5.0, codec_seconds=0.5, wall_seconds=0.5), now=103.0)
    assert (totals.clips, totals.failed, totals.seconds) == (3, {"a"}, 15.0), "a recording fails once"
    assert (totals.codec_seconds, totals.wall_seconds) == (1.5, 2.5)
    assert totals.span_seconds == 3.0
