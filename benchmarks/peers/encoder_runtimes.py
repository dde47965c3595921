"""EnCodec's encoder and quantizer in other runtimes; `codec_runtimes.py` starts this in an environment that has them.

    python encoder_runtimes.py onnxruntime FOLDER     # prints core-seconds as JSON, writes FOLDER/onnxruntime.npy

FOLDER holds a checkpoint in transformers' layout and WAV files of one length. The graph is made once, for one clip of
that length, with the weight norms folded; both runtimes get one thread and float32.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import nn
from transformers import EncodecModel

Array = np.ndarray


class CodesOfClip(nn.Module):
    """What `EncodecModel.encode` does with one mono clip that is not normalised or cut: `[1, 1, N]` to `[K, 1, T]`."""

    def __init__(self, model: EncodecModel) -> None:
        super().__init__()
        for module in model.modules():
            if hasattr(module, "parametrizations"):
                for name in list(module.parametrizations):
                    nn.utils.parametrize.remove_parametrizations(module, name)
        self.encoder, self.quantizer = model.encoder, model.quantizer
        self.bandwidth = model.config.target_bandwidths[-1]

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        codes: torch.Tensor = self.quantizer.encode(self.encoder(audio), self.bandwidth)
        return codes


def graph_of(folder: Path, num_samples: int) -> Path:
    """Export the graph unless it is there."""
    path = folder / f"encoder-{num_samples}.onnx"
    if not path.exists():
        model = CodesOfClip(EncodecModel.from_pretrained(folder).eval()).eval()
        with torch.no_grad():
            torch.onnx.export(model, (torch.zeros(1, 1, num_samples),), str(path), dynamo=False, opset_version=17)
    return path


def with_onnxruntime(graph: Path) -> Callable[[Array], Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda audio: session.run(None, {name: audio})[0]


def with_openvino(graph: Path) -> Callable[[Array], Array]:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(str(graph), "CPU", settings)
    return lambda audio: compiled([audio])[0]


RUNTIMES = {"onnxruntime": with_onnxruntime, "openvino": with_openvino}


def main(runtime: str, folder: Path) -> None:
    paths = sorted(folder.glob("*.wav"))
    clips = [soundfile.read(path, dtype="float32")[0][None, None] for path in paths]
    encode = RUNTIMES[runtime](graph_of(folder, clips[0].shape[-1]))
    encode(clips[0])
    start = time.process_time()
    codes = [encode(soundfile.read(path, dtype="float32")[0][None, None]) for path in paths]
    seconds = time.process_time() - start
    np.save(folder / f"{runtime}.npy", np.concatenate(codes, axis=1).swapaxes(0, 1))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
