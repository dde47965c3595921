"""Shuffled batches from one object server: Solfa, MosaicML streaming, WebDataset.

    python -m benchmarks.object_store.shuffled_reads [--clips 20000] [--milliseconds 0] [--peers FOLDER]

The same clips [500, 4] of uint16, in shards of 8 MB, in a bucket of a real S3 server (SeaweedFS), which may be made a
distant one. Every reader gives batches of 64 as int64 tensors, in one process, with an empty folder as its cache: an
epoch with nothing here, the time until the first batch, and then an epoch with everything here. Streaming has its own
order and waits for a shard when it needs it. WebDataset reads shards in random order and shuffles 5,000 clips of them,
so its order is less random; it fetches through curl, as it does for HTTP. The peers run in an environment of their own
(FOLDER; made if it is not there), because their versions of other packages are not ours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

CODEBOOK_SIZE, SHAPE, BATCH_SIZE = 2048, (500, 4), 64
SHARD_BYTES = 8 << 20
PEERS = ("mosaicml-streaming==0.13.0", "webdataset==1.0.2")
NEEDED = "boto3 brotli braceexpand numpy pillow python-snappy pyyaml requests tqdm transformers xxhash zstd"


def clip(index: int) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(index).integers(0, CODEBOOK_SIZE, SHAPE, np.uint16)


def measured(name: str, epoch: Callable[[], Iterable[Any]], num_clips: int) -> dict[str, Any]:
    """Read two epochs; all clips have to come, each once."""
    found: dict[str, Any] = {"name": name}
    for state in ("cold", "warm"):
        began, first, total, count = time.perf_counter(), 0.0, 0, 0
        for batch in epoch():
            first = first or time.perf_counter() - began
            total += int(batch.sum())
            count += len(batch)
        seconds = time.perf_counter() - began
        assert count == num_clips, (name, count)
        found |= {f"{state} clips/s": count / seconds, f"{state} first batch ms": 1000 * first, f"{state} sum": total}
    return found


# What runs in the environment of the peers: no Solfa there.


def without_pictures() -> None:
    """Leave out streaming's datasets of pictures: they import torchvision, which PyPI has for CUDA only."""
    sys.modules["streaming.vision"] = ModuleType("streaming.vision")


def write_for_peers(folder: Path, num_clips: int) -> None:
    import io
    import tarfile

    without_pictures()
    from streaming import MDSWriter

    columns = {"id": "str", "codes": f"ndarray:uint16:{SHAPE[0]},{SHAPE[1]}"}
    with MDSWriter(out=str(folder / "mds"), columns=columns, size_limit=SHARD_BYTES) as writer:
        for index in range(num_clips):
            writer.write({"id": f"{index:06d}", "codes": clip(index)})
    (folder / "wds").mkdir()
    per_shard = SHARD_BYTES // (SHAPE[0] * SHAPE[1] * 2)
    for shard, first in enumerate(range(0, num_clips, per_shard)):
        with tarfile.open(folder / f"wds/{shard:04d}.tar", "w") as tar:
            for index in range(first, min(num_clips, first + per_shard)):
                content = io.BytesIO()
                np.save(content, clip(index))
                member = tarfile.TarInfo(f"{index:06d}.npy")
                member.size = content.tell()
                content.seek(0)
                tar.addfile(member, content)


def streaming_epochs(bucket: str, work: str) -> Callable[[], Iterable[Any]]:
    import torch

    without_pictures()
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    os.environ["S3_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    dataset = StreamingDataset(
        remote=f"{bucket}/mds", local=f"{work}/mds", shuffle=True, batch_size=BATCH_SIZE, shuffle_seed=1
    )

    def stack(items: list[dict[str, Any]]) -> Any:
        return torch.from_numpy(np.stack([item["codes"] for item in items]).astype(np.int64))

    return lambda: DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=0, collate_fn=stack)


def webdataset_epochs(bucket: str, work: str) -> Callable[[], Iterable[Any]]:
    import boto3
    import torch
    import webdataset

    Path(work, "wds").mkdir()
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
    name = bucket.partition("://")[2]
    keys = [found["Key"] for found in client.list_objects_v2(Bucket=name, Prefix="wds/")["Contents"]]
    signed = [client.generate_presigned_url("get_object", Params={"Bucket": name, "Key": key}) for key in keys]
    dataset = webdataset.WebDataset(
        [f"pipe:curl -s -f '{url}'" for url in signed],
        shardshuffle=len(keys),
        cache_dir=f"{work}/wds",
        url_to_name=lambda url: url.partition("?")[0].rpartition("/")[2],
        seed=1,
    )

    def stack(items: list[Any]) -> Any:
        return torch.from_numpy(np.stack(items).astype(np.int64))

    def epoch() -> Iterator[Any]:
        decoded = dataset.shuffle(5000).decode().to_tuple("npy").map(lambda item: item[0])
        return iter(decoded.batched(BATCH_SIZE, collation_fn=stack))

    return epoch


def run_peer(step: str, bucket: str, work: str, num_clips: int) -> None:
    if step == "write":
        write_for_peers(Path(work), num_clips)
        return
    epochs = {"streaming": streaming_epochs, "webdataset": webdataset_epochs}[step](bucket, work)
    print(json.dumps(measured(step, epochs, num_clips)))


# What runs in ours.


def solfa_reads(bucket: str, num_clips: int) -> dict[str, Any]:
    from solfa.data import Crop, make_loader
    from solfa.store import open_dataset

    loader = make_loader(
        open_dataset(f"{bucket}/clips.solfa"), Crop(num_frames=SHAPE[0], batch_size=BATCH_SIZE), seed=1
    )
    return measured("solfa", lambda: (batch.arrays for batch in loader), num_clips)


def write_ours(bucket: str, num_clips: int) -> None:
    from solfa.store import ArraySpec, DatasetInfo, Outcome, PlannedClip, append_arrays

    width = {"kind": "codes", "width": SHAPE[1], "codebook_size": CODEBOOK_SIZE, "dtype": "uint16"}
    spec = ArraySpec(**width, sample_rate=32_000, num_channels=1, hop_length=640)
    names = [f"{index:06d}" for index in range(num_clips)]
    outcomes = [
        Outcome(PlannedClip(id=name, key=name, uri=f"{name}.flac"), clip(index), num_samples=SHAPE[0] * 640)
        for index, name in enumerate(names)
    ]
    info = DatasetInfo.of("benchmark", spec, {"codec": "benchmark"})
    append_arrays(f"{bucket}/clips.solfa", info, outcomes, {}, SHARD_BYTES // (SHAPE[0] * SHAPE[1] * 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=20_000)
    parser.add_argument("--milliseconds", type=float, default=0.0)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers/readers"))
    options = parser.parse_args()

    from benchmarks.object_store.server import object_server
    from benchmarks.peers.environments import python_of
    from solfa.files import LocalStore, store_at

    # The peers without what they ask for: that brings another torch, with gigabytes of CUDA.
    torch = f"torch=={version('torch').split('+')[0]}"
    python = python_of(options.peers, [torch], ["--no-deps", *PEERS], NEEDED.split())
    with tempfile.TemporaryDirectory() as work, object_server(options.milliseconds) as bucket:

        def peer(step: str) -> str:
            command = [python, __file__, "peer", step, bucket, work, str(options.clips)]
            return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

        os.environ["SOLFA_CACHE_DIR"] = f"{work}/solfa"
        Path(work, "written").mkdir()
        command = [python, __file__, "peer", "write", bucket, f"{work}/written", str(options.clips)]
        subprocess.run(command, check=True)
        for entry in LocalStore(Path(work, "written")).list():
            store_at(bucket).replace(entry.key, Path(work, "written", entry.key).read_bytes())
        write_ours(bucket, options.clips)
        results = [solfa_reads(bucket, options.clips)]
        results += [json.loads(peer(step).splitlines()[-1]) for step in ("streaming", "webdataset")]
    assert len({result[f"{state} sum"] for result in results for state in ("cold", "warm")}) == 1, "clips differ"
    for result in results:
        numbers = ", ".join(f"{key} {value:,.0f}" for key, value in result.items() if key.endswith(("/s", "ms")))
        ratio = ", ".join(
            f"{state} {results[0][f'{state} clips/s'] / result[f'{state} clips/s']:.2f}" for state in ("cold", "warm")
        )
        print(f"{result['name']}: {numbers}; Solfa is so many times as fast: {ratio}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        run_peer(*sys.argv[2:5], int(sys.argv[5]))
    else:
        main()
