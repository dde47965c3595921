"""What is written: every recording, exactly, once; and nothing that is not there."""

import json
import re

import numpy as np
import pytest
import soundfile
import torch

from solfa.codecs.catalogue import load_codec
from solfa.encoding.pre_encode.padded_batch import BatchEncoder
from solfa.errors import ConfigError, SolfaError, StoreError
from solfa.store.legacy.detection import open_legacy


def decoded(array):
    """Turn the codes of the embedded codec back into a waveform."""
    from solfa.ops.mulaw import mulaw_decode

    return mulaw_decode(torch.from_numpy(array), 1 << 16).numpy()


def test_six_recordings_and_batches_of_four_give_six_items_with_the_audio_of_their_source(run, read, wav):
    written = {f"{name}.wav": wav(f"{name}.wav", 3000 + 400 * index) for index, name in enumerate("fbdaec")}
    report = run(batch_size=4)
    items = read()
    assert (report.items, report.new_items, report.failures) == (6, 6, [])
    assert [facts["relpath"] for _, facts in items.values()] == sorted(written)
    assert list(items) == [
        f"000{batch:06d}{place:04d}" for batch, place in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    ]
    for array, facts in items.values():
        audio = written[facts["relpath"]]
        num_samples = audio.shape[1]
        assert np.abs(decoded(array)[:, :num_samples] - audio).max() < 1e-3  # the sign, too
        assert np.abs(decoded(array)[:, num_samples:]).max() < 1e-3
        assert facts["padding_mask"] == [1] * num_samples + [0] * (8000 - num_samples)


def test_an_item_is_described_with_the_keys_that_readers_know(run, read, wav, tmp_path):
    wav("a/song.wav", 44100, sample_rate=22050, channels=2)
    (tmp_path / "audio/a/song.txt").write_text("a song")
    run(sample_size=20000)
    first, second = (facts for _, facts in read().values())
    known = {key: value for key, value in second.items() if key not in ("padding_mask", "solfa", "caption")}
    assert known == {
        "path": str(tmp_path / "audio/a/song.wav"),
        "relpath": "a/song.wav",
        "prompt": "a song",
        "timestamps": pytest.approx([0.625, 1.0], abs=1e-4),
        "seconds_start": 1,
        "seconds_total": 2,
        "sample_rate": 16000,
        "audio_channels": 1,
        "duration": 0.75,
        "start_time": pytest.approx(1.25, abs=1e-4),
        "end_time": 2.0,
    }
    assert (first["start_time"], first["seconds_start"], first["end_time"]) == (0.0, 0, second["start_time"])
    source = [second["solfa"][f"source_{name}"] for name in ("sample_rate", "num_channels", "num_samples")]
    assert source == [22050, 2, 44100]


def test_a_long_recording_becomes_consecutive_items_that_are_all_of_it(run, read, wav):
    audio = wav("long.wav", 8000 * 3 + 500)
    run()
    arrays = [decoded(array)[:, : sum(facts["padding_mask"])] for array, facts in read().values()]
    assert [array.shape[1] for array in arrays] == [8000, 8000, 8000, 500]
    assert np.abs(np.concatenate(arrays, axis=1) - audio).max() < 1e-3


def test_a_random_crop_is_honoured_where_it_is_written_and_is_always_the_same(run, read, wav, dataset_config):
    audio = wav("long.wav", 50_000)
    wav("short.wav", 4000)
    dataset_config(random_crop=True, drop_last=True)
    report = run()
    assert run(output_path=str(report.path.with_name("again"))).items == report.items == 2
    (array, facts), _ = read().values()
    start = round(facts["start_time"] * 16000)
    assert 0 < start <= 42_000
    assert np.abs(decoded(array) - audio[:, start : start + 8000]).max() < 1e-3
    assert np.array_equal(array, next(iter(read("again").values()))[0])
    assert [note.partition(" ")[0] for note in report.notes] == ["random_crop", "drop_last"]


def test_latents_are_the_posterior_mean_of_the_unclamped_audio(run, read, wav, oobleck):
    from tests.codecs.tiny import OOBLECK_CONFIG, oobleck_network

    audio = {"quiet.wav": wav("quiet.wav", 5000, 44100, 2), "loud.wav": wav("loud.wav", 3010, 44100, 2, scale=3.0)}
    run(**oobleck)
    network = oobleck_network(OOBLECK_CONFIG)
    for array, facts in read().values():
        clip = audio[facts["relpath"]]
        padded = np.pad(clip, ((0, 0), (0, 8000 - clip.shape[1])))
        with torch.no_grad():
            means = network.means(torch.from_numpy(padded)[None])[0].numpy()
        assert (array.shape, array.dtype) == ((3, 200), np.float32)
        assert np.abs(array - means).max() < 1e-4 * np.abs(means).max()
        assert facts["padding_mask"] == [1] * -(-clip.shape[1] // 40) + [0] * (200 - -(-clip.shape[1] // 40))


def test_two_runs_write_the_same_bytes_whatever_the_number_of_workers(run, wav, oobleck, tmp_path, digest):
    for name in "cab":
        wav(f"{name}.wav", 9000, 22050)
    run(**oobleck, num_workers=0)
    run(**oobleck, num_workers=1, output_path=str(tmp_path / "again"))
    first, second = digest(tmp_path / "out"), digest(tmp_path / "again")
    differing = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    assert differing == {"details.json"}  # which holds output_path and num_workers


def test_tokens_are_stored_codebooks_first_with_a_mask_of_frames(run, read, wav, tmp_path):
    from tests.codecs.tiny import make_stable_audio_dac

    path = make_stable_audio_dac(tmp_path / "dac")
    wav("a.wav", 5000, 32000, 2)
    run(model_config=str(path), ckpt_path=str(path.with_name("model.safetensors")), is_discrete=True)
    ((array, facts),) = read().values()
    assert (array.shape, array.dtype.kind) == ((3, 200), "i")
    assert facts["padding_mask"] == [1] * 125 + [0] * 75
    codec = load_codec(path, checkpoint=str(path.with_name("model.safetensors")))
    audio, _ = soundfile.read(tmp_path / "audio/a.wav", dtype="float32", always_2d=True)
    padded = torch.from_numpy(np.pad(audio.T, ((0, 0), (0, 3000))))[None]
    assert np.array_equal(array.T, codec.encode(padded).array[0].numpy())


def test_silence_is_encoded_like_anything_else_and_stored_beside_the_items(run, read, wav, tmp_path, oobleck):
    for name in "ab":
        wav(f"{name}.wav", 8000, 44100, 2, scale=0.0)
    assert run(**oobleck).items == 2
    silence = np.load(tmp_path / "out/silence.npy")
    assert silence.shape == (1, 3, 200)
    # Close, not equal: a batch of two is another order of additions than a batch of one.
    assert all(np.allclose(array, silence[0], atol=1e-6) for array, _ in read().values())


def test_what_cannot_be_read_is_listed_and_replaced_by_nothing(run, read, wav, failures, tmp_path, dataset_config):
    for name in ("good", "skip_me", "other"):
        wav(f"{name}.wav", 4000)
    (tmp_path / "audio/broken.wav").write_bytes(b"RIFF")
    (tmp_path / "audio/gone.wav").symlink_to(tmp_path / "nowhere.wav")
    content = (tmp_path / "audio/good.wav").read_bytes()
    (tmp_path / "audio/cut.wav").write_bytes(content[: len(content) // 2])
    dataset_config("def get_custom_metadata(info, audio):\n    return {'__reject__': 'skip' in info['relpath']}\n")
    report = run()
    assert [facts["relpath"] for _, facts in read().values()] == ["good.wav", "other.wav"]
    assert failures().keys() == {"broken.wav", "cut.wav", "gone.wav", "skip_me.wav"}
    assert "get_custom_metadata" in failures()["skip_me.wav"]
    assert {failure.relpath: failure.error for failure in report.failures} == failures()


def test_metadata_reaches_the_items_and_what_is_not_json_is_named_there(run, read, wav, dataset_config):
    wav("a.wav", 4000)
    dataset_config(
        "import numpy\n"
        "def get_custom_metadata(info, audio):\n"
        "    return {'prompt': 'a ' + info['relpath'], 'caption': 'c', 'peak': numpy.float32(0.5), 'bad': object()}\n"
    )
    run()
    ((_, facts),) = read().values()
    assert (facts["prompt"], facts["peak"]) == ("a a.wav", 0.5)
    assert "bad" not in facts
    assert "bad is a object" in facts["metadata_error"]


def test_the_function_gets_every_item_as_the_model_does(run, read, wav, dataset_config):
    audio = wav("long.wav", 18_000)
    dataset_config(
        "def get_custom_metadata(info, audio):\n"
        "    heard = {name: info[name] for name in ('timestamps', 'seconds_start', 'seconds_total', 'sample_rate')}\n"
        "    valid = audio[:, info['padding_mask'].bool()]\n"
        "    assert not audio[:, valid.shape[1]:].any()\n"
        "    is_middle = 0 < heard['timestamps'][0] < 0.5\n"
        "    return {'heard': heard, 'shape': audio.shape, 'samples': valid, '__reject__': is_middle}\n"
    )
    assert run().items == 2
    first, last = (facts for _, facts in read().values())
    for facts, (start, stop) in ((first, (0, 8000)), (last, (16_000, 18_000))):
        assert facts["shape"] == [1, 8000]
        assert np.array_equal(np.float32(facts["samples"]), audio[:, start:stop])
        expected = {"timestamps": [start / 18_000, stop / 18_000], "seconds_start": start // 16_000}
        assert facts["heard"] == expected | {"seconds_total": 2, "sample_rate": 16_000}
        assert facts["heard"].items() <= facts.items()


@pytest.mark.slow
def test_an_s3_config_gives_the_items_of_the_same_files_in_a_folder(run, read, wav, dataset_config, bucket, tmp_path):
    from solfa.files import store_at

    wav("long.wav", 9000)
    store_at(bucket).replace("long.wav", (tmp_path / "audio/long.wav").read_bytes())
    config = dataset_config(
        "def get_custom_metadata(info, audio):\n    return {'prompt': info['relpath'], 'peak': float(audio.max())}\n"
    )
    run()
    entry = {"id": "mine", "s3_path": f"{bucket}/", "custom_metadata_module": "describe.py"}
    config.write_text(json.dumps({"dataset_type": "s3", "datasets": [entry], "epoch_steps": 2000}))
    assert run(output_path=str(tmp_path / "from_bucket")).items == 2
    here, there = read().values(), read("from_bucket").values()
    names = ("relpath", "timestamps", "prompt", "peak")
    for (codes, facts), (other_codes, other_facts) in zip(here, there, strict=True):
        assert np.array_equal(codes, other_codes)
        assert {name: facts[name] for name in names} == {name: other_facts[name] for name in names}
        assert other_facts["path"] == f"{bucket}/long.wav"


def test_a_limit_takes_the_first_batches_of_the_same_order(run, read, wav):
    for name in "abcde":
        wav(f"{name}.wav", 4000)
    run(limit_batches=1, batch_size=2)
    assert [facts["relpath"] for _, facts in read().values()] == ["a.wav", "b.wav"]


def test_shuffling_is_a_permutation_that_never_changes(run, read, wav, tmp_path):
    for number in range(12):
        wav(f"{number:02d}.wav", 4000)
    orders = []
    for name in ("one", "two"):
        run(shuffle=True, output_path=str(tmp_path / name))
        orders.append([facts["relpath"] for _, facts in read(name).values()])
    assert orders[0] == orders[1] != sorted(orders[0]) == [f"{number:02d}.wav" for number in range(12)]
    run(shuffle=True, output_path=str(tmp_path / "few"), limit_batches=2)
    assert [facts["relpath"] for _, facts in read("few").values()] == orders[0][:4]


def test_half_precision_stores_half_precision_or_says_in_a_sentence_that_it_cannot(run, read, wav, oobleck):
    wav("a.wav", 8000, 44100, 2)
    try:
        run(**oobleck, model_half=True)
    except ConfigError as error:
        assert re.search("model_half.*fp16 on cpu", str(error))
    else:
        ((array, _),) = read().values()
        assert array.dtype == np.float16


def test_foreign_weights_are_refused_and_nothing_is_written(run, wav, tmp_path, oobleck):
    from safetensors.torch import load_file, save_file

    wav("a.wav", 4000)
    state = load_file(oobleck["ckpt_path"])
    state["encoder.layers.0.weight_other"] = state.pop("encoder.layers.0.weight_v")
    save_file(state, tmp_path / "foreign.safetensors")
    with pytest.raises(SolfaError, match="weight_"):
        run(**oobleck | {"ckpt_path": str(tmp_path / "foreign.safetensors")})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_discrete": False}, "tokens.*add is_discrete"),
        ({"pretrained_name": "mulav"}, "did you mean 'mulaw'"),
        (
            {"pretrained_name": None, "model_config": "no.json", "ckpt_path": "no.ckpt"},
            r"model_config: .*no\.json",
        ),
        ({"dataset_config": "no.json"}, r"no\.json"),
        ({"num_nodes": 3}, "torchrun"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_written(run, wav, tmp_path, changes, words):
    wav("a.wav", 4000)
    with pytest.raises(ConfigError, match=words):
        run(**changes)
    assert not (tmp_path / "out").exists()


def test_latents_as_tokens_and_an_empty_folder_are_refused(run, wav, tmp_path, oobleck):
    (tmp_path / "audio").mkdir()
    with pytest.raises(ConfigError, match="expected audio files"):
        run()
    wav("a.wav", 4000)
    with pytest.raises(ConfigError, match="leave is_discrete out"):
        run(**oobleck, is_discrete=True)
    assert not (tmp_path / "out").exists()


def test_other_settings_on_an_existing_folder_are_refused_by_name(run, wav, tmp_path, digest):
    wav("a.wav", 4000)
    run()
    before = digest(tmp_path)
    with pytest.raises(StoreError, match=r"batch_size: 2\b.* 3\b.*sample_size: 8000\b.* 9000\b"):
        run(batch_size=3, sample_size=9000)
    with pytest.raises(StoreError, match=r"codec\.options\.bits: 16\b.* 8\b"):
        run(pretrained_name="mulaw:bits=8,sample_rate=16000")
    assert digest(tmp_path) == before
    assert run(num_workers=0, strategy="ddp").new_items == 0  # what does not change the files may change
    assert digest(tmp_path) == before


@pytest.mark.parametrize(("name", "content"), [("notes.txt", "mine"), ("details.json", '{"args": {}}')])
def test_folders_of_others_are_refused_untouched(run, wav, tmp_path, digest, name, content):
    wav("a.wav", 4000)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(content)
    with pytest.raises(ConfigError, match="`output_path`"):
        run()
    assert digest(tmp_path / "out").keys() == {name}


def test_recordings_that_came_later_are_named_and_those_that_changed_fail(run, read, wav, failures, tmp_path):
    for name in "abc":
        wav(f"{name}.wav", 4000)
    run(batch_size=1)
    before = read()
    for path in (tmp_path / "out/0").glob("0000000000*"):
        path.unlink()
    wav("a.wav", 5000)
    wav("0_new.wav", 4000)
    report = run(batch_size=1)
    assert re.search(r"recordings .*\b1\b.*0_new\.wav", report.notes[0])
    assert "changed" in failures()["a.wav"]
    assert read().keys() == before.keys() - {"0000000000000"}


def test_details_hold_the_configs_and_the_arguments(run, wav, tmp_path, oobleck):
    wav("a.wav", 4000)
    run(**oobleck)
    details = json.loads((tmp_path / "out/details.json").read_text())
    assert details["model_config"]["model"]["bottleneck"] == {"type": "vae"}
    assert details["dataset_config"]["datasets"] == [{"id": "mine", "path": "audio"}]
    assert details["sample_size"] == details["args"]["sample_size"] == 8000
    assert details["args"]["ckpt_path"] == oobleck["ckpt_path"]


def test_solfa_import_reads_what_was_written(run, wav, tmp_path):
    from solfa.encoding.fingerprint import array_spec

    wav("a.wav", 4000)
    wav("b.wav", 12_000)
    run()
    codec = load_codec("mulaw:bits=16,sample_rate=16000")
    outcomes = list(open_legacy(tmp_path / "out").outcomes(array_spec(codec)))
    assert [len(outcome.array) for outcome in outcomes] == [4000, 8000, 4000]
    assert [outcome.error for outcome in outcomes] == [None] * 3


class OutOfMemory:
    """The embedded codec on a device that has no memory for the first `times` calls."""

    def __init__(self, times):
        self._codec, self.times = load_codec("mulaw"), times

    def __getattr__(self, name):
        return getattr(self._codec, name)

    def encode(self, audio):
        self.times -= 1
        if self.times >= 0:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self._codec.encode(audio)


def test_a_device_short_of_memory_for_a_moment_does_not_end_the_run():
    audio = [np.zeros((1, 500), np.float32)] * 3
    assert len(BatchEncoder(OutOfMemory(1), "cpu", 1000, half=False).encode(audio)) == 3
    with pytest.raises(SolfaError, match=r"memory for 3 items.*smaller `batch_size`"):
        BatchEncoder(OutOfMemory(2), "cpu", 1000, half=False).encode(audio)


class NoHalf(OutOfMemory):
    """The embedded codec with a layer that has no fp16 kernel."""

    def encode(self, audio):
        raise RuntimeError("\"slow_conv\" not implemented for 'Half'")


def test_a_codec_that_does_not_run_in_fp16_is_one_sentence():
    with pytest.raises(ConfigError, match=r"`model_half`: mulaw .*fp16 on cpu.*leave it out"):
        BatchEncoder(NoHalf(0), "cpu", 1000, half=True).encode_silence()
