"""What AudioCraft's files and keys are called here: `solver=musicgen/debug` is `solver=lm/debug`."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch

from solfa.experiments.compose.foreign_keys import Answer, answer_keys, renamed

_AUDIO = "dset=audio/default dset.train=music.solfa, or dset.train.path=FOLDER and dset.train.codec=encodec_32khz"
_NO_NOTES = "conditioner=text; Solfa has no conditions on chords, drums or melodies"

_SCALES = {"xsmall": "tiny", "base": "laptop", "small": "small", "medium": "medium", "large": "large"}
"""Sizes, with the closest where there is none of that name."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "solver": {
        "default": "solver=lm/base or another task; what all solvers share is in solver/standard.yaml",
        "musicgen/debug": "solver=lm/debug",
        "musicgen/*melody*": "solver=lm/base conditioner=text; Solfa has no melody conditions",
        "musicgen/*style*": "solver=lm/base conditioner=text; Solfa has no style conditions",
        "musicgen/*": "solver=lm/base conditioner=text",
        "audiogen/debug": "solver=lm/debug",
        "audiogen/*": "solver=lm/base conditioner=text, with data of a codec for sounds, e.g. dac_16khz",
        "compression/encodec_base_24khz": "solver=compression/base model=codec/encodec_24khz",
        "compression/default": "solver=compression/base",
        "compression/encodec_*": "solver=compression/base",
        "diffusion/*": "solver=flow/base, on the latents of a dataset; Solfa has no diffusion from codes",
        "jasco/*": f"solver=flow/base {_NO_NOTES}",
        "magnet/*": "solver=lm/base conditioner=text; Solfa has no masked models",
        "musicgenstem/*": "solver=lm/base conditioner=text; Solfa has no models of stems",
        "watermark/*": "not a task: Solfa trains no watermarks",
    },
    "conditioner": {
        "text2music": "conditioner=text",
        "text2sound": "conditioner=text",
        "chroma*": "conditioner=text; Solfa has no melody conditions",
        "clap*": "conditioner=text; Solfa has no joint embeddings of text and audio",
        "style*": "conditioner=text; Solfa has no style conditions",
        "chords*": _NO_NOTES,
        "drums*": _NO_NOTES,
        "jasco_*": _NO_NOTES,
    },
    "dset": {
        "audio/musiccaps_32khz": "dset=mot/musiccaps",
        "audio/*khz": _AUDIO,
        "audio/data": _AUDIO,
        "audio/example": _AUDIO,
        "default": _AUDIO,
        "internal/*": _AUDIO,
    },
    "model": {
        **{f"lm/model_scale/{size}": f"model=lm/{here}" for size, here in _SCALES.items()},
        "lm/*_lm": "model=lm/small",
        "lm/default": "model=lm/small",
        "encodec/*": "model=codec/encodec_24khz",
        "score/*": "solver=flow/base, which has its own model; Solfa has no diffusion from codes",
        "watermark/*": "not a model: Solfa trains no watermarks",
        "none": "left out: each solver has a model",
    },
}
"""By group and pattern; the first pattern counts."""


def _codec(value: str) -> str:
    return "given by the codec that the dataset was encoded with; leave it out"


def _pattern(value: str) -> str:
    return f"model.pattern.kind={'flat' if value == 'unroll' else value}"


def _precision(value: str) -> str:
    return f"precision={'16-mixed' if value == 'float16' else '32-true' if value == 'false' else 'bf16-mixed'}"


def _judged(value: str) -> str:
    return "evaluate.metrics=[kad,kld] while it is trained; `solfa evaluate` measures more afterwards"


_WARM_UP = renamed("optim.schedule.warmup_updates")

_KEYS: Mapping[str, Answer] = {
    "model/lm/model_scale": lambda value: f"model=lm/{_SCALES.get(value, value)}",
    "datasource.train": renamed("dset.train.path"),
    "datasource.valid": renamed("dset.valid"),
    "datasource.evaluate": renamed("dset.evaluate"),
    "datasource.generate": renamed("dset.generate"),
    "dataset.segment_duration": renamed("dataset.segment_seconds"),
    "sample_rate": _codec,
    "channels": _codec,
    "compression_model_checkpoint": lambda value: "dset.train.codec=NAME for audio; a dataset knows its codec",
    "optim.lr": renamed("optim.optimizer.lr"),
    "optim.adam.betas": renamed("optim.optimizer.betas"),
    "optim.adam.eps": renamed("optim.optimizer.eps"),
    "optim.adam.weight_decay": renamed("optim.optimizer.weight_decay"),
    "optim.max_norm": renamed("optim.clip_norm"),
    "optim.ema.use": lambda value: "optim.ema=null" if value == "false" else "on by default; leave it out",
    "optim.ema.updates": renamed("optim.ema.every"),
    "schedule.lr_scheduler": renamed("optim.schedule.kind"),
    "schedule.cosine.warmup": _WARM_UP,
    "schedule.cosine.lr_min_ratio": renamed("optim.schedule.min_ratio"),
    "schedule.inverse_sqrt.warmup": _WARM_UP,
    "schedule.linear_warmup.warmup": _WARM_UP,
    "schedule.polynomial_decay.warmup": _WARM_UP,
    "autocast": _precision,
    "autocast_dtype": _precision,
    "fsdp.use": lambda value: f"strategy={'fsdp' if value == 'true' else 'auto'}",
    "codebooks_pattern.modeling": _pattern,
    "codebooks_pattern.delay.delays": renamed("model.pattern.delays"),
    "transformer_lm.n_q": _codec,
    "transformer_lm.card": _codec,
    "transformer_lm.dim": renamed("model.dim"),
    "transformer_lm.num_layers": renamed("model.num_layers"),
    "transformer_lm.num_heads": renamed("model.num_heads"),
    "transformer_lm.dropout": renamed("model.dropout"),
    "transformer_lm.hidden_scale": lambda value: f"model.ffn_dim=DIM, which is {value} times model.dim",
    "classifier_free_guidance.training_dropout": renamed("conditioner.guidance_dropout"),
    "classifier_free_guidance.inference_coef": renamed("generate.sampling.guidance_scale"),
    "generate.lm.temp": renamed("generate.sampling.temperature"),
    "generate.lm.top_k": renamed("generate.sampling.top_k"),
    "generate.lm.top_p": renamed("generate.sampling.top_p"),
    "generate.lm.gen_duration": renamed("generate.seconds"),
    "generate.lm.prompt_duration": renamed("generate.prompt_seconds"),
    "evaluate.metrics.sisnr": lambda value: "si_sdr, which the training of a codec always measures; leave it out",
    **{f"evaluate.metrics.{name}": _judged for name in ("visqol", "fad", "kld", "text_consistency", "chroma_cosine")},
    "logging.log_tensorboard": renamed("logging.tensorboard"),
    "logging.log_wandb": lambda value: "logging.wandb=null" if value == "false" else '"logging.wandb={project: NAME}"',
    "show": lambda value: "`solfa train --dry-run`",
}


def choice_here(group: str, name: str) -> str:
    """Say what to choose instead of one of AudioCraft's files; empty if it is none of them.

    >>> from solfa.experiments.compose.audiocraft_names import choice_here
    >>> choice_here("solver", "musicgen/debug")
    'solver=lm/debug'
    """
    return next((here for pattern, here in _CHOICES.get(group, {}).items() if fnmatch(name, pattern)), "")


def keys_here(overrides: Iterable[str]) -> list[str]:
    """Answer each override that is one of AudioCraft's with what to type instead."""
    return answer_keys(_KEYS, overrides)
