"""Repair a dataset: restore records from each other, and encode again the shards whose files are damaged or lost.

verify ──► encode lost shards apart ──► put whole files in place ──► commits ──► manifests ──► verify
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.peeked_source import PeekedSource
from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.encoding.api import settle_info
from solfa.encoding.frozen_plan import refuse_strangers
from solfa.encoding.placement import Encoders
from solfa.encoding.progress import Listener, Silence
from solfa.encoding.repair_bench import Bench
from solfa.encoding.supervision import SupervisedRun
from solfa.errors import ConfigError, StoreError
from solfa.files.stores.place import Place, read_place
from solfa.store.gc import expect_nobody_at_work
from solfa.store.layout import expect_real_folders, read_info
from solfa.store.plan_file import ShardOfPlan, list_shards
from solfa.store.restoration import Claims, Repair, expect_sound_plan, restore_commits, restore_manifests
from solfa.store.schema import Commit
from solfa.store.verification import Problem, Verification, check_shard, verify


class RepairReport(NamedTuple):
    """What was put in order, and what verification found afterwards."""

    repairs: list[Repair]
    verification: Verification


def repair_dataset(
    path: str | Place,
    *,
    source: str | Path | AudioSource | None = None,
    audio_root: str | Path | None = None,
    trust_code: bool = False,
    codec: str | Path | Codec | None = None,
    device: str | None = None,
    num_workers: int | None = None,
    num_encoders: int | None = None,
    listener: Listener | None = None,
    on_shard: Callable[[int, int], None] = lambda done, total: None,
) -> RepairReport:
    """Verify a dataset and put in order what is damaged or lost, so that it is what it was, byte for byte.

    Commits and manifests are restored from each other. Shards are encoded again from `source`, which is what the
    dataset was encoded from, with its codec and on the kind of device that made them; the result counts only if it has
    the hashes that were committed. What cannot be repaired stays as it is: it is among the problems, with the reason.

    >>> from solfa.encoding import repair_dataset
    >>> report = repair_dataset("music.solfa", source="audio/")
    >>> report.repairs, report.verification.problems  # nothing was wrong
    ([], [])
    """
    root = read_place(path)
    read_info(root)
    expect_real_folders(root)
    expect_nobody_at_work(root)
    before = verify(root, on_shard)
    if not before.problems:
        return RepairReport([], before)
    suspects = {problem.shard for problem in before.problems if problem.shard is not None}
    planned, fault = _sound_plan(root)
    is_sound = partial(_is_sound, root, planned)
    if planned is None:
        repairs, reasons = list(restore_commits(root, suspects, is_sound)), dict.fromkeys(suspects, fault)
    else:
        claims = Claims.read(root)
        suspects |= planned.keys() - claims.of_shard.keys()
        lost = {shard: planned[shard] for shard in sorted(suspects & planned.keys())}
        lost = {shard: plan for shard, plan in lost.items() if not any(map(is_sound, claims.distinct(shard)))}
        bench = Bench(root, lost, claims, listener or Silence())
        if lost:
            opened = partial(_open, source, audio_root, trust_code)
            bench.encode(partial(_begin, root, lost, claims, opened, codec, device, num_workers, num_encoders))
        reasons = bench.reasons
        repairs = [*bench.repairs, *restore_commits(root, suspects, is_sound), *restore_manifests(root, is_sound)]
    after = verify(root, on_shard)
    return RepairReport(repairs, after._replace(problems=list(_with_reasons(after.problems, reasons))))


def _sound_plan(root: Place) -> tuple[dict[int, ShardOfPlan] | None, str]:
    """List the planned shards, or None and the reason if the plan is damaged."""
    try:
        expect_sound_plan(root)
        return {shard.shard: shard for shard in list_shards(root)}, ""
    except StoreError as error:
        return None, str(error)


def _is_sound(root: Place, planned: dict[int, ShardOfPlan] | None, commit: Commit) -> bool:
    return not check_shard(root, commit, planned, read_info(root).array)


def _open(source: str | Path | AudioSource | None, audio_root: str | Path | None, trust_code: bool) -> AudioSource:
    if source is None:
        raise ConfigError("encoding it again needs the audio that it was made from: pass `source`")
    if not isinstance(source, str | Path):
        return source
    return open_source(source, audio_root=None if audio_root is None else Path(audio_root), trust_code=trust_code)


def _begin(
    root: Place,
    lost: Mapping[int, ShardOfPlan],
    claims: Claims,
    opened: Callable[[], AudioSource],
    codec: str | Path | Codec | None,
    device: str | None,
    num_workers: int | None,
    num_encoders: int | None,
    bench: Path,
) -> SupervisedRun:
    """Load what it takes to encode the lost shards; whatever is not as it was is an error."""
    source = PeekedSource(opened())
    refuse_strangers(root, source, lost)
    made_on = [commit.made_by.get("device", "auto") for shard in lost for commit in claims.distinct(shard)]
    encoders = Encoders.choose(device or next(iter(made_on), "auto"), num_encoders, num_workers, os.environ)
    chosen = read_info(root).codec if codec is None else codec
    loaded = load_codec(chosen) if isinstance(chosen, str | Path) else chosen
    info = settle_info(root, source, loaded, encoders.device)
    return SupervisedRun(bench, info, source.root, loaded, encoders, in_process=loaded is codec)


def _with_reasons(problems: list[Problem], reasons: Mapping[int, str]) -> Iterator[Problem]:
    """Say once per shard why it is not repaired."""
    said = set[int]()
    for problem in problems:
        if problem.shard is None or problem.shard not in reasons:
            yield problem
        elif problem.shard not in said:
            said.add(problem.shard)
            yield problem._replace(message=f"{problem.message}; not repaired: {reasons[problem.shard]}")
    for shard in sorted(reasons.keys() - said):
        yield Problem(f"commit/{shard:05d}.json", f"missing; not repaired: {reasons[shard]}")
