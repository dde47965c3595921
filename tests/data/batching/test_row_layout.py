from itertools import chain

import numpy as np
import pytest

from solfa.data.batching.modes import Crop, Pack, plan_epoch
from solfa.data.batching.row_layout import Rows, deal
from solfa.data.sources.clip_source import MemoryClips


def table(rows: Rows, first_row: int = 0) -> list[tuple[int, ...]]:
    columns = (rows.clips, rows.starts, rows.slacks, rows.num_frames, rows.rows + first_row, rows.columns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("mode", [Crop(num_frames=9, batch_size=8), Pack(num_frames=13, batch_size=7)])
def test_the_shares_in_rank_order_are_the_global_batch(clips: MemoryClips, mode: Crop | Pack, world_size: int) -> None:
    plan = plan_epoch(mode, clips.num_frames, clips.digest, 0, 0)
    for step in range(len(plan)):
        batch = plan.batch(step)
        shares = [deal(batch, rank, world_size) for rank in range(min(world_size, batch.num_rows))]
        sizes = [share.num_rows for share in shares]
        firsts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        assert sum(sizes) == batch.num_rows and max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True), "the first ranks have more, so rank 0 never goes without"
        joined = [table(share, first) for share, first in zip(shares, firsts[:-1], strict=True)]
        assert list(chain.from_iterable(joined)) == table(batch)


@pytest.mark.parametrize("mode", [Crop(num_frames=4, batch_size=3), Pack(num_frames=13, batch_size=2)])
def test_where_rows_are_fewer_than_ranks_the_last_ranks_get_one_row_without_a_frame(mode: Crop | Pack) -> None:
    plan = plan_epoch(mode, np.array([5, 6, 7, 8]), "digest", 0, 0)
    batch = plan.batch(len(plan) - 1)
    assert batch.num_rows < 3
    shares = [deal(batch, rank, 3) for rank in range(3)]
    assert [share.num_rows for share in shares] == [1, 1, 1]
    assert all(share.num_columns == batch.num_columns for share in shares)
    dealt = [entry for number, share in enumerate(shares[: batch.num_rows]) for entry in table(share, number)]
    assert dealt == table(batch), "those that were dealt a row have all of them"
    for share in shares[batch.num_rows :]:
        assert table(share) == [(int(batch.clips[0]), 0, 0, 0, 0, 0)]
