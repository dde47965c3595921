"""Small collections of clips with codes that tell where they come from."""

import numpy as np
import pytest

from solfa.data.sources.clip_source import MemoryClip, MemoryClips


def make_clips(num_clips: int, seed: int = 0, width: int = 3) -> MemoryClips:
    rng = np.random.default_rng(seed)
    clips = []
    for index, length in enumerate(rng.integers(1, 40, num_clips)):
        array = rng.integers(0, 2**16, (length, width)).astype(np.uint16)
        array.setflags(write=False)
        caption = f"clip {index}" if index % 3 else None
        clips.append(MemoryClip(f"folder/{index}.wav", array, caption, {"index": index}))
    return MemoryClips(clips)


@pytest.fixture(scope="session")
def clips() -> MemoryClips:
    return make_clips(29)
