"""Teach a listener to tell keys from codes: `python recipes/tiny_music/key_listener.py TRAIN VALID OUT`.

TRAIN and VALID are datasets that `solfa encode` made of train.csv and valid.csv. OUT becomes the listener's folder, in
half precision: as `listener` in the folder of a model, it is what the model chooses among its candidates by.

It learns from training pieces alone, whose keys are exact. A model's draws are not what it plays from: codes that do
not fit each other, a passage in another key. So in training, codes are replaced by others and left unheard, passages of
other pieces are put in, and beginnings are cut off.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from compose import draw_piece
from numpy.typing import NDArray
from rendering import FRAME_RATE
from torch import Tensor, nn
from wordings import SHARPS

import solfa
from solfa.errors import ConfigError, SolfaError
from solfa.models import KEYS, UNHEARD, CodesListener, KeyName, ListenerConfig, load_listener, save_listener

EPOCHS, BATCH, RATE, DECAY, SMOOTHING, NOTES = 24, 32, 3e-3, 0.05, 0.05, 5.0
REPLACED, UNHEARD_FRAMES, UNHEARD_CODEBOOKS, CUT, OTHERS = 0.3, 0.3, 0.15, 0.5, 0.4
"""The most codes that are replaced, frames left unheard, how often a codebook is unheard, the most that is cut off, and
the longest passage of another piece."""


class Pieces(NamedTuple):
    """Codes `[N, K, T]` of pieces, the numbers of their keys `[N]`, and which pitch classes sound when `[N, 12, T]`."""

    codes: Tensor
    keys: Tensor
    sounding: Tensor


def read_pieces(datasets: Sequence[str]) -> Pieces:
    """Read all pieces that have a key; drums have none."""
    clips = [clip for dataset in datasets for clip in solfa.open_dataset(dataset) if clip.metadata.get("tonic")]
    if not clips:
        found = ", ".join(datasets)
        raise ConfigError(f"{found}: expected pieces with a tonic and a mode, found none; encode a table of compose.py")
    names = [(SHARPS.index(str(clip.metadata["tonic"])), str(clip.metadata["mode"])) for clip in clips]
    codes = np.stack([np.asarray(clip.array).T for clip in clips]).astype(np.int64)  # [N, K, T]
    sounding = np.stack([pitch_classes_over_time(str(clip.metadata["path"]), codes.shape[2]) for clip in clips])
    keys = torch.tensor([KEYS.index(KeyName(tonic, mode)) for tonic, mode in names])
    return Pieces(torch.from_numpy(codes), keys, torch.from_numpy(sounding))


def pitch_classes_over_time(path: str, frames: int) -> NDArray[np.float32]:
    """Compose a piece again, and say which pitch classes sound in each frame, `[12, T]`."""
    split, name = path.split("/")
    seed, number = name.removesuffix(".flac").split("-")
    piece = draw_piece(int(seed), split, int(number))  # type: ignore[arg-type]
    sounding = np.zeros((12, frames), np.float32)
    for note in piece.notes:
        start, stop = (
            round(at * piece.spec.beat_seconds * FRAME_RATE) for at in (note.start, note.start + note.length)
        )
        sounding[note.key % 12, start:stop] = 1.0
    return sounding


def disturb(codes: Tensor, codebook_size: int) -> Tensor:
    """Replace codes `[N, K, T]`, and leave some unheard."""
    num, num_codebooks, _ = shape = codes.shape
    replaced = torch.rand(shape) < REPLACED * torch.rand(num, 1, 1)
    codes = torch.where(replaced, torch.randint(0, codebook_size, shape), codes)
    unheard = torch.rand(num, 1, shape[2]) < UNHEARD_FRAMES * torch.rand(num, 1, 1)
    unheard = unheard | (torch.rand(num, num_codebooks, 1) < UNHEARD_CODEBOOKS)
    return codes.masked_fill(unheard, UNHEARD)


def insert_others(pieces: Pieces) -> Pieces:
    """Put a passage of another piece into each one, at the same place: as a model does that strays from its key."""
    num, _, frames = pieces.codes.shape
    length = OTHERS * frames * torch.rand(num, 1, 1)
    start = (frames - length) * torch.rand(num, 1, 1)
    place = torch.arange(frames)
    is_other = (place >= start) & (place < start + length)
    codes, sounding = (torch.where(is_other, own.roll(1, dims=0), own) for own in (pieces.codes, pieces.sounding))
    return Pieces(codes, pieces.keys, sounding)


def at_steps(sounding: Tensor, frames_per_step: int) -> Tensor:
    """Say how much of the frames around each step a pitch class sounds: `[N, 12, T]` to `[N, 12, S]`."""
    half = frames_per_step // 2
    return nn.functional.avg_pool1d(
        nn.functional.pad(sounding, (half, half - 1)), frames_per_step, stride=frames_per_step
    )


def teach(listener: CodesListener, pieces: Pieces, epochs: int, rate: float = RATE) -> Iterator[float]:
    """Train on all pieces, and yield the mean loss of every epoch."""
    steps = epochs * -(-len(pieces.keys) // BATCH)
    # What the notes are is learnt beside the key, and forgotten afterwards: 12 answers for every step teach much more
    # than one for a piece.
    notes = nn.Linear(listener.config.widths[-1], 12)
    optimizer = torch.optim.AdamW([*listener.parameters(), *notes.parameters()], lr=rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        losses: list[float] = []
        for rows in torch.randperm(len(pieces.keys)).split(BATCH):
            cut = int(torch.randint(int(CUT * pieces.codes.shape[2]), ()))
            some = insert_others(Pieces(pieces.codes[rows, :, cut:], pieces.keys[rows], pieces.sounding[rows, :, cut:]))
            steps = listener.train().hear(disturb(some.codes, listener.config.codebook_size))
            loss = nn.functional.cross_entropy(listener.tell(steps), some.keys, label_smoothing=SMOOTHING)
            wanted = at_steps(some.sounding, listener.frames_per_step)
            loss = loss + NOTES * nn.functional.binary_cross_entropy_with_logits(notes(steps).transpose(1, 2), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        yield float(np.mean(losses))


@torch.inference_mode()
def accuracies(listener: CodesListener, pieces: Pieces) -> Sequence[float]:
    """Return how many roots are right, and how many keys."""
    found = torch.cat([listener.eval()(codes).argmax(dim=1) for codes in pieces.codes.split(64)])
    right = (found % 12 == pieces.keys % 12, found == pieces.keys)
    return [float(one.float().mean()) for one in right]


def main() -> None:
    """Read the arguments, train, and say how well it hears."""
    parser = argparse.ArgumentParser(description="Teach a listener to tell keys from codes.")
    parser.add_argument("train", nargs="+", metavar="TRAIN", help="Datasets: `solfa encode` made them of train.csv.")
    parser.add_argument("valid", metavar="VALID", help="The same of valid.csv.")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rate", type=float, default=RATE, help="The highest learning rate.")
    parser.add_argument("--start", metavar="LISTENER", help="Go on from the weights of a listener.")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        train, valid = read_pieces(arguments.train), read_pieces([arguments.valid])
        info = solfa.open_dataset(arguments.train[0]).info
        torch.manual_seed(arguments.seed)
        listener = CodesListener(
            ListenerConfig(
                condition="key",
                num_values=len(KEYS),
                num_codebooks=train.codes.shape[1],
                codebook_size=info.array.codebook_size,
                codec_fingerprint=solfa.load_codec(info.codec).fingerprint,
            )
        )
        if arguments.start is not None:
            listener.load_state_dict(load_listener(arguments.start).state_dict())
        for epoch, loss in enumerate(teach(listener, train, arguments.epochs, arguments.rate), 1):
            root, key = accuracies(listener, valid)
            spent = time.process_time()
            print(f"epoch {epoch}: loss {loss:.3f}, valid root {root:.0%}, key {key:.0%}, {spent:.0f} s", flush=True)
        save_listener(listener, arguments.out, half=True)
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
