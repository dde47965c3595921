"""Pure functions of tensors and arrays."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.ops.adversarial import Hinge, LeastSquares, feature_matching_loss
    from solfa.ops.audio_losses import MelLoss, StftLoss, TimeLoss, mel_loss, stft_loss, time_loss
    from solfa.ops.audio_metrics import codebook_perplexity, codebook_usage, count_codes, si_sdr
    from solfa.ops.class_grid import LinearGrid, MulawGrid, cells_on
    from solfa.ops.embedding_distances import fad, fad_infinity, kad, tag_divergence
    from solfa.ops.extended_ids import codes_of_ids, extend_ids
    from solfa.ops.landmarks import Landmarks, find_landmarks, pack_landmarks, unpack_landmarks
    from solfa.ops.loss_balance import Balancer, BalancerConfig
    from solfa.ops.mulaw import mulaw_decode, mulaw_encode
    from solfa.ops.noise_paths import noised, target
    from solfa.ops.patterns import (
        CoarseFirst,
        Delay,
        Flat,
        Parallel,
        frames_within,
        lay_out,
        lay_out_mask,
        steps_of,
        take_back,
    )
    from solfa.ops.recording_bootstrap import mean_draws
    from solfa.ops.sampling import draw, filter_logits, guide
    from solfa.ops.temperature import draw_uniforms
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.ops.adversarial": ["Hinge", "LeastSquares", "feature_matching_loss"],
            "solfa.ops.audio_losses": ["MelLoss", "StftLoss", "TimeLoss", "mel_loss", "stft_loss", "time_loss"],
            "solfa.ops.audio_metrics": ["codebook_perplexity", "codebook_usage", "count_codes", "si_sdr"],
            "solfa.ops.class_grid": ["LinearGrid", "MulawGrid", "cells_on"],
            "solfa.ops.embedding_distances": ["fad", "fad_infinity", "kad", "tag_divergence"],
            "solfa.ops.extended_ids": ["codes_of_ids", "extend_ids"],
            "solfa.ops.landmarks": ["Landmarks", "find_landmarks", "pack_landmarks", "unpack_landmarks"],
            "solfa.ops.loss_balance": ["Balancer", "BalancerConfig"],
            "solfa.ops.mulaw": ["mulaw_decode", "mulaw_encode"],
            "solfa.ops.noise_paths": ["noised", "target"],
            "solfa.ops.patterns": [
                "CoarseFirst",
                "Delay",
                "Flat",
                "Parallel",
                "frames_within",
                "lay_out",
                "lay_out_mask",
                "steps_of",
                "take_back",
            ],
            "solfa.ops.recording_bootstrap": ["mean_draws"],
            "solfa.ops.sampling": ["draw", "filter_logits", "guide"],
            "solfa.ops.temperature": ["draw_uniforms"],
        },
    )

__all__ = [
    "Balancer",
    "BalancerConfig",
    "CoarseFirst",
    "Delay",
    "Flat",
    "Hinge",
    "Landmarks",
    "LeastSquares",
    "LinearGrid",
    "MelLoss",
    "MulawGrid",
    "Parallel",
    "StftLoss",
    "TimeLoss",
    "cells_on",
    "codebook_perplexity",
    "codebook_usage",
    "codes_of_ids",
    "count_codes",
    "draw",
    "draw_uniforms",
    "extend_ids",
    "fad",
    "fad_infinity",
    "feature_matching_loss",
    "filter_logits",
    "find_landmarks",
    "frames_within",
    "guide",
    "kad",
    "lay_out",
    "lay_out_mask",
    "mean_draws",
    "mel_loss",
    "mulaw_decode",
    "mulaw_encode",
    "noised",
    "pack_landmarks",
    "si_sdr",
    "steps_of",
    "stft_loss",
    "tag_divergence",
    "take_back",
    "target",
    "time_loss",
    "unpack_landmarks",
]
