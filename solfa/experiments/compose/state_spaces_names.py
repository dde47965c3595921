"""What the keys of state-spaces' training script are called here: `trainer.max_epochs=2000` is `optim.epochs=2000`."""

from collections.abc import Mapping, Sequence

from solfa.experiments.compose.foreign_keys import Answer, answer_keys, renamed

_RATE = 16_000
"""Samples a second of its audio datasets."""


def _seconds(value: str) -> str:
    return f"dataset.segment_seconds={int(value) / _RATE:g}" if value.isdecimal() else "dataset.segment_seconds=SECONDS"


def _codec(bits: str = "8", kind: str = "mulaw") -> str:
    return f"\"dset.train.codec='{kind}:bits={bits},sample_rate={_RATE}'\""


_OFF = "logging.wandb=null"


def _wandb(project: str = "NAME", more: str = "") -> str:
    return f'"logging.wandb={{project: {project}{more}}}"'


def _tie(value: str) -> str:
    return f"model.tie={'tied' if value == '1' else 'per_channel'}"


_HERE: Mapping[str, Answer] = {
    "loader.batch_size": renamed("dataset.batch_size"),
    "loader.num_workers": renamed("dataset.num_workers"),
    "dataset.sample_len": _seconds,
    "dataset.bits": lambda bits: _codec(bits=bits),
    "dataset.quantization": lambda kind: _codec(kind="linear" if kind == "linear" else "mulaw"),
    "dataset.path": renamed("dset.train.path"),
    "dataset.data_dir": renamed("dset.train.path"),
    "trainer.max_epochs": renamed("optim.epochs"),
    "trainer.devices": lambda value: f"`solfa train --ddp-workers {value}`",
    "trainer.accumulate_grad_batches": renamed("optim.accumulate"),
    "trainer.gradient_clip_val": renamed("optim.clip_norm"),
    "trainer.precision": renamed("precision"),
    "optimizer.lr": renamed("optim.optimizer.lr"),
    "optimizer.weight_decay": renamed("optim.optimizer.weight_decay"),
    "scheduler.patience": renamed("optim.schedule.patience"),
    "scheduler.factor": renamed("optim.schedule.factor"),
    "train.seed": renamed("seed"),
    "train.ema": renamed("optim.ema.decay"),
    "train.ckpt": renamed("continue_from"),
    "train.pretrained_model_path": renamed("continue_from"),
    "model.d_model": renamed("model.dim"),
    "model.layer.d_state": renamed("model.d_state"),
    "model.layer.n_ssm": _tie,
    "model.layer.dt_min": renamed("model.dt_min"),
    "model.layer.dt_max": renamed("model.dt_max"),
    "model.layer.final_act": lambda value: f"model.glu={'true' if value == 'glu' else 'false'}",
    "model.layer.postact": lambda value: f"model.glu={'true' if value == 'glu' else 'false'}",
    "task.loss": lambda value: f"model.output_head={'dml' if value == 'dml' else 'categorical'}",
    "wandb": lambda value: _OFF,
    "wandb.mode": lambda value: _OFF if value == "disabled" else _wandb(),
    "wandb.project": _wandb,
    "wandb.group": lambda value: _wandb(more=f", group: {value}"),
    "wandb.name": lambda value: _wandb(more=f", name: {value}"),
}


def names_here(overrides: Sequence[str]) -> list[str]:
    """Answer each override that is one of state-spaces' with what to type instead."""
    return answer_keys(_HERE, overrides)
