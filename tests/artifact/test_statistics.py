"""Statistics are typed in code and JSON in manifests, unchanged on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ConfigDict, ValidationError

from korealbert.artifact import ArtifactError, Inputs, Real, Runtime, Spec, Stage, Statistics, build


class ToySpec(Spec):
    pass


class ToyStats(Statistics):
    documents: int
    share: Real = 0.5
    by_name: dict[str, int] | None = None


class OtherStats(Statistics):
    sentences: int


def write(spec: ToySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ToyStats:
    (out_dir / "data").write_text("data")
    return ToyStats.of({"documents": 3, "share": 1, "by_name": {"b": 1, "a": 2}})


def test_a_stage_hands_over_fields_and_its_manifest_holds_json(tmp_path: Path) -> None:
    artifact = build(Stage("toy", 1, ToySpec, write), ToySpec(), {}, Runtime(store=tmp_path)).artifact
    assert artifact.stats == {"documents": 3, "share": 1, "by_name": {"b": 1, "a": 2}}
    assert b'"share": 1\n' in (artifact.path / "manifest.json").read_bytes(), "no 1.0: digests of old manifests stay"
    found = artifact.stats_as(ToyStats)
    assert (found.documents, found.share, found.by_name) == (3, 1, {"a": 2, "b": 1})


def test_what_a_run_leaves_out_is_left_out_of_the_manifest() -> None:
    assert ToyStats(documents=3).facts() == {"documents": 3}


def test_statistics_of_another_kind_are_refused_by_artifact_and_field(tmp_path: Path) -> None:
    artifact = build(Stage("toy", 1, ToySpec, write), ToySpec(), {}, Runtime(store=tmp_path)).artifact
    with pytest.raises(
        ArtifactError, match=rf"{artifact.name}: its statistics are no OtherStats \(sentences: Field required\)"
    ):
        artifact.stats_as(OtherStats)


class SpeedsStats(Statistics):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]


def test_facts_under_names_of_the_run_have_a_type_too() -> None:
    assert SpeedsStats.of({"M-BERT": 1.0, "KoBERT": 1.25}).facts() == {"M-BERT": 1.0, "KoBERT": 1.25}
    with pytest.raises(ValidationError, match="KoBERT"):
        SpeedsStats.of({"KoBERT": "fast"})


def test_a_fact_without_a_field_is_not_lost_silently() -> None:
    with pytest.raises(TypeError, match="ToyStats has no field sentences"):
        ToyStats.of({"documents": 3, "sentences": 1})
