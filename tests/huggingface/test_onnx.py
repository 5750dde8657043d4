"""ONNX files of an export compute the same in onnxruntime as its weights in transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from korealbert.artifact import Runtime, build
from korealbert.huggingface.export import STAGE, ExportSpec
from korealbert.huggingface.onnx import FILES, Session, write_module
from tests.huggingface.conftest import MakeModel

UNSHARED = {"share": "none", "embedding_size": 32, "activation": "gelu"}
ROBERTA = {"pooler": False, "position_offset": 1, "type_vocab_size": 1}


@pytest.mark.parametrize(
    ("architecture", "inputs"),
    [
        ({"num_layers": 2}, 3),
        pytest.param({**UNSHARED}, 3, marks=pytest.mark.soak),
        pytest.param({**UNSHARED, **ROBERTA}, 2, marks=pytest.mark.soak),
        ({"architecture": "modern", "local_attention": 4, "num_layers": 2}, 2),
    ],
    ids=["albert", "bert", "roberta", "modernbert"],
)
def test_hidden_states_are_torchs_with_padding_and_at_any_size(
    make_model: MakeModel, tmp_path: Path, architecture: dict, inputs: int
) -> None:
    pytest.importorskip("onnxruntime")
    made, _ = make_model(**architecture)
    path = build(STAGE, ExportSpec(onnx=("fp32", "int8")), made, Runtime(store=tmp_path)).artifact.path
    model = AutoModel.from_pretrained(path).eval()
    fp32, int8 = (Session(path / FILES[form], threads=1) for form in ("fp32", "int8"))
    assert len(fp32.names) == inputs
    for rows, length in ((1, 5), (4, 16)):
        lengths = torch.arange(length, length - rows, -1)[:, None]
        mask = (torch.arange(length) < lengths).long()
        ids = torch.randint(5, 82, (rows, length), generator=torch.Generator().manual_seed(rows)) * mask
        types = (torch.arange(length) >= 3).long().expand(rows, -1) * mask
        batch = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        with torch.inference_mode():
            hidden = model(**{name: batch[name] for name in fp32.names}).last_hidden_state[mask.bool()].numpy()
        arrays = {name: tensor.numpy() for name, tensor in batch.items()}
        (exact,), (rounded,) = fp32.run(arrays), int8.run(arrays)
        assert exact.shape == (rows, length, 32)
        np.testing.assert_allclose(exact[mask.bool()], hidden, atol=1e-5)
        error = np.abs(rounded[mask.bool()] - hidden) / hidden.std()
        assert 0 < error.mean() < 0.05, error.mean()
    assert (path / FILES["int8"]).stat().st_size < (path / "model.safetensors").stat().st_size
    assert str(Path(torch.__file__).parent).encode() not in (path / FILES["int8"]).read_bytes()
    if architecture == UNSHARED:
        again = build(STAGE, ExportSpec(onnx=("int8",)), made, Runtime(store=tmp_path / "again")).artifact.path
        assert (again / FILES["int8"]).read_bytes() == (path / FILES["int8"]).read_bytes()


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 4))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs[0])


def test_the_same_module_gives_the_same_bytes_in_the_forms_that_are_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    module = Tiny().eval()
    for name, forms in (("both", ("fp32", "int8")), ("alone", ("int8",))):
        write_module(module, ["input_ids"], ["hidden"], tmp_path / name, forms)
    both, alone = tmp_path / "both", tmp_path / "alone"
    assert (alone / FILES["int8"]).read_bytes() == (both / FILES["int8"]).read_bytes()
    assert [path.name for path in (alone / "onnx").iterdir()] == ["model_int8.onnx"]


def test_without_the_extra_a_plan_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("korealbert.huggingface.onnx.find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"\[export\] onnx: onnx, onnxruntime, .* not installed; .*korealbert\[onnx\]"):
            STAGE.check(ExportSpec(onnx=("fp32",)), Runtime())
        STAGE.check(ExportSpec(), Runtime())
    with pytest.raises(ValueError, match="twice"):
        ExportSpec(onnx=("int8", "int8"))
