"""Models as ONNX files with dynamic batch size and length, written by torch's exporter and run by onnxruntime.

Both need the extra ``onnx``. ``int8`` is dynamic quantisation: matrices and embeddings are stored in 8 bits, activations are
quantised batch by batch. Matrices have one scale per output and use 7 of the 8 bits: on processors without VNNI the sum of two
8-bit products overflows, which moved single values of an ALBERT by 0.7 standard deviations instead of 0.1.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from korealbert.huggingface.loading import quiet_loading

if TYPE_CHECKING:
    import torch

Form = Literal["fp32", "int8"]

FILES: Mapping[Form, str] = {"fp32": "onnx/model.onnx", "int8": "onnx/model_int8.onnx"}
"""Paths in a model's directory where the hub, optimum, sentence-transformers and transformers.js look for ONNX files."""

_PACKAGES = ("onnx", "onnxruntime", "onnxscript")


def check_onnx(wanted: bool, field: str) -> None:
    """Raise ValueError if a field of a spec asks for ONNX and the packages for it are not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if wanted and missing:
        raise ValueError(
            f"{field}: {', '.join(missing)} not installed; install the extra with `pip install 'korealbert[onnx]'`, "
            "or leave the field out"
        )


def write_encoder(directory: Path, forms: Sequence[Form]) -> None:
    """Write the encoder of a Hugging Face directory as ONNX files into the same directory.

    Inputs: int64 ``input_ids`` and ``attention_mask`` [B, L], and ``token_type_ids`` if the model has several types. Output:
    fp32 ``last_hidden_state`` [B, L, H]. The same directory and package versions give the same bytes.
    """
    from transformers import AutoModel  # noqa: PLC0415 (planning does without)

    with quiet_loading(), _quietly():
        model = AutoModel.from_pretrained(directory, attn_implementation="eager", local_files_only=True).eval()
    names = ["input_ids", "attention_mask", *["token_type_ids"] * (getattr(model.config, "type_vocab_size", 0) > 1)]
    write_module(_hidden_of(model, names), names, ["last_hidden_state"], directory, forms)


def _hidden_of(model: Any, names: Sequence[str]) -> torch.nn.Module:
    from torch import nn  # noqa: PLC0415 (planning does without)

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            hidden_BLH: torch.Tensor = self.model(**dict(zip(names, inputs, strict=True))).last_hidden_state
            return hidden_BLH

    return Hidden().eval()


def write_module(
    module: torch.nn.Module, inputs: Sequence[str], outputs: Sequence[str], directory: Path, forms: Sequence[Form]
) -> None:
    """Write a module as ONNX files; its ``forward`` takes one int64 tensor [B, L] for each name in ``inputs``."""
    with tempfile.TemporaryDirectory() as scratch, _quietly():
        plain, prepared = Path(scratch) / "plain.onnx", Path(scratch) / "prepared.onnx"
        _trace(module, inputs, outputs, plain)
        for form in forms:
            path = directory / FILES[form]
            path.parent.mkdir(parents=True, exist_ok=True)
            if form == "fp32":
                shutil.copyfile(plain, path)
            else:
                _quantise(plain, prepared, path)


def _trace(module: torch.nn.Module, inputs: Sequence[str], outputs: Sequence[str], path: Path) -> None:
    import onnx  # noqa: PLC0415 (an extra)
    import torch  # noqa: PLC0415 (planning does without)

    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        module,
        tuple(torch.ones(3, 11, dtype=torch.int64) for _ in inputs),
        path,
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_shapes=(tuple(free for _ in inputs),),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    model = onnx.load(path)
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        del part.metadata_props[:]  # Lines of the traced source code, with this machine's paths.
        part.doc_string = ""
    onnx.save(model, path)


def _quantise(plain: Path, prepared: Path, path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 (an extra)
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415 (an extra)

    # Without this, matrices that layers share would not be quantised, since each layer reads them through a node of its own.
    quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    quantize_dynamic(prepared, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


class Session:
    """An ONNX file that onnxruntime runs on the CPU, without torch."""

    def __init__(self, path: Path, *, threads: int) -> None:
        import onnxruntime  # noqa: PLC0415 (an extra)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
        self.names: list[str] = [each.name for each in self._session.get_inputs()]
        """Names of the inputs."""

    def run(self, arrays: Mapping[str, npt.NDArray[np.int64]]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for arrays [B, L]. Arrays that the model has no input for are ignored."""
        outputs: list[npt.NDArray[np.float32]] = self._session.run(None, {name: arrays[name] for name in self.names})
        return outputs


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress log lines of exporter and quantiser about packages that are not needed here."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
