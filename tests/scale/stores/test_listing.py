"""A hundred thousand objects are listed in the memory that a thousand take."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scale

ROOT = Path(__file__).parents[3]
COUNT = 100_000
LIST = """
import json, resource, sys
from solfa.audio import open_source
told = []
count = sum(1 for _ in open_source(sys.argv[1], on_listed=told.append).recordings())
print(json.dumps([count, told[-1], len(told), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""
PUT = """
import asyncio, os, sys, obstore
from obstore.store import from_url
store = from_url(sys.argv[1], endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True})
async def main(count):
    room = asyncio.Semaphore(128)
    async def put(index):
        async with room:
            await obstore.put_async(store, f"{index // 1000:03d}/{index:06d}.wav", b"")
    for first in range(0, count, 5000):
        await asyncio.gather(*(put(index) for index in range(first, min(count, first + 5000))))
asyncio.run(main(int(sys.argv[2])))
"""


def listed(url: str) -> tuple[int, int, int, int]:
    done = subprocess.run([sys.executable, "-c", LIST, url], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


def test_memory_does_not_grow_with_the_number_of_objects(bucket: str) -> None:
    # In a process of its own: this one may fork later.
    subprocess.run([sys.executable, "-c", PUT, f"{bucket}/many", str(COUNT)], env=os.environ, check=True)
    few, few_told, _, few_kilobytes = listed(f"{bucket}/many/007")
    many, many_told, pages, many_kilobytes = listed(f"{bucket}/many")
    assert (few, few_told) == (1000, 1000) and (many, many_told) == (COUNT, COUNT)
    assert pages == COUNT // 1000  # told page by page
    # A list of all of them would take 250 bytes each for the keys and ETags alone.
    assert many_kilobytes - few_kilobytes < COUNT * 250 / 1024
