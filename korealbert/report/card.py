"""The model card once more, now that fine-tuning scores exist."""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.export.card import FinetunedScores, ModelFacts, model_card
from korealbert.model.config import AlbertConfig
from korealbert.report.run import Run
from korealbert.report.scores import Benchmark


def card_with_scores(run: Run, benchmarks: Sequence[Benchmark]) -> str | None:
    """The exported model's card with the scores of all fine-tuning cells, or None where no model was exported."""
    export, pretrain = run.one("export"), run.one("pretrain")
    if export is None or pretrain is None:
        return None
    spec = export.manifest["spec"]
    facts = ModelFacts(
        title=spec["title"],
        license=spec["license"],
        config=AlbertConfig.model_validate_json((pretrain.path / "config.json").read_bytes()),
        groups=export.stats["layer_groups"],
        sequence_length=export.stats["sequence_length"],
    )
    cells = [
        FinetunedScores(benchmark.group, cell.init, benchmark.metric, cell.dev, cell.test)
        for benchmark in benchmarks
        for cell in benchmark.cells
    ]
    return model_card(facts, pretrain, finetuned=cells)
