"""The model card once more, now that fine-tuning scores exist."""

from __future__ import annotations

from korealbert.export.card import ModelFacts, model_card
from korealbert.model.config import AlbertConfig
from korealbert.report.run import Run


def card_with_scores(run: Run) -> str | None:
    """The exported model's card with the statistics of all fine-tuning cells, or None where no model was exported."""
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
    return model_card(facts, pretrain, finetuned=[cell.stats for cell in run.of("finetune").values()])
