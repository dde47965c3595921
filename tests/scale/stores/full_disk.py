"""Read two epochs of a dataset from a folder and from a bucket, with a cache on a disk that is too small.

Usage: python -m tests.scale.stores.full_disk LOCAL REMOTE; prints `equal`, and `full` if the disk was.
"""

import shutil
import sys

import torch

from solfa.data import Crop, make_loader
from solfa.store.dataset import open_dataset
from solfa.store.file_cache import FileCache


def main(local: str, remote: str) -> None:
    mode = Crop(num_frames=4000, batch_size=8)
    here, there = make_loader(open_dataset(local), mode, seed=1), make_loader(open_dataset(remote), mode, seed=1)
    for _ in range(2):
        for one, other in zip(here, there, strict=True):
            assert torch.equal(one.arrays, other.arrays) and one.ids == other.ids
    sys.stdout.write("equal\n")
    cache = FileCache.choose()
    largest = max(file.size_bytes for file in open_dataset(remote).remote_files().files)
    if cache.kept() and shutil.disk_usage(cache.folder).free < largest:
        sys.stdout.write("full\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
