import pytest

from solfa.codecs.cpu.tiles import ALIGNMENT, Geometry, split_evenly, window_of, windows_of


def inputs_of(geometry: Geometry, frame: int) -> set[int]:
    """The samples inside the clip that one output frame sees, tap by tap."""
    start = frame * geometry.stride - geometry.pad_left
    return {sample for sample in range(start, start + geometry.span) if 0 <= sample < geometry.num_in}


@pytest.mark.parametrize("stride", [1, 2, 5])
@pytest.mark.parametrize("pads_itself", [False, True])
def test_a_window_holds_all_that_its_outputs_see(stride, pads_itself):
    pad = 3
    geometry = Geometry(2 * pad + stride, stride, 203, pad, pad, pads_itself)
    for first in range(0, geometry.num_out, 7):
        last = min(first + 7, geometry.num_out)
        window = window_of(geometry, first, last)
        seen = set().union(*(inputs_of(geometry, frame) for frame in range(first, last)))
        assert seen <= set(range(window.start, window.stop))
        assert window.num_kept == last - first


def test_without_own_padding_window_and_padding_give_exactly_the_outputs_asked_for():
    geometry = Geometry(span=8, stride=4, num_in=101, pad_left=2, pad_right=5)
    for first, last in split_evenly(geometry.num_out, 6):
        window = window_of(geometry, first, last)
        length = window.pad_left + window.stop - window.start + window.pad_right
        assert (length - geometry.span) // geometry.stride + 1 == last - first
        assert (window.pad_left > 0) == (first == 0)
        assert (window.pad_right > 0) == (last == geometry.num_out)


def test_with_own_padding_no_kept_output_touches_it_inside_the_clip():
    geometry = Geometry(span=13, stride=2, num_in=4000, pad_left=6, pad_right=6, pads_itself=True)
    for first, last in split_evenly(geometry.num_out, 100):
        window = window_of(geometry, first, last)
        assert window.start == (first - window.num_dropped) * geometry.stride
        assert (first - window.num_dropped) % ALIGNMENT == 0
        if window.start > 0:
            assert window.num_dropped * geometry.stride >= geometry.pad_left
        if window.stop < geometry.num_in:
            num_computed = (window.stop - window.start + 2 * 6 - geometry.span) // geometry.stride + 1
            assert window.num_dropped + window.num_kept <= num_computed - 6 // geometry.stride


def test_each_window_of_a_chain_yields_the_next():
    chain = [Geometry(7, 1, 100, 3, 3), Geometry(3, 1, 100, 1, 1), Geometry(8, 4, 100, 2, 2)]
    windows = windows_of(chain, 5, 9)
    assert windows[2] == window_of(chain[2], 5, 9)
    assert windows[1] == window_of(chain[1], windows[2].start, windows[2].stop)
    assert windows[0] == window_of(chain[0], windows[1].start, windows[1].stop)


@pytest.mark.parametrize("num_frames", [1, 2, 9, 10, 11, 99, 100, 101])
def test_pieces_cover_everything_once_and_are_nearly_equal(num_frames):
    pieces = split_evenly(num_frames, 10)
    assert [frame for first, last in pieces for frame in range(first, last)] == list(range(num_frames))
    lengths = {last - first for first, last in pieces}
    assert max(lengths) <= 10
    assert max(lengths) - min(lengths) <= 1
