"""The last sections of every report: time, machines and costs; the graph of all artifacts; their files; terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from korealbert.artifact import Artifact, ancestors
from korealbert.formatting import MISSING, by_number, compact, count, duration, flat, percent
from korealbert.pretrain.stage import PretrainStats
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Card, Cards, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.graph import Box, layered
from korealbert.report.render.text import markdown

MEASURED = ("report.html", "report.md", "tables/costs-*", "figures/lineage.svg", "figures/wall-time.svg")
"""Files of a report that contain times or names of machines."""

_TRAINING_STATISTICS = {"steps", "tokens", "epochs", "parameters", "sequence_length"}
"""Statistics by which a pretraining is recognised, since its stage has several names."""


def closing(artifacts: Artifacts, chapters: Sequence[Section | None]) -> list[Section]:
    """Return the given sections without None, followed by costs and lineage."""
    sections = [chapter for chapter in chapters if chapter is not None]
    if (costs_section := _costs(artifacts)) is not None:
        sections.append(costs_section)
    last = _lineage(artifacts, {section.anchor for section in sections})
    terms = _terms([*sections, last])
    return [*sections, Section(last.anchor, last.title, [*last.blocks, *terms])]


def _costs(artifacts: Artifacts) -> Section | None:
    """Show wall time and processor time by stage, throughput of training, and machines."""
    built = ancestors(artifacts.by_label)
    if not built:
        return None
    kinds: dict[str, list[Artifact]] = {}
    for artifact in built.values():
        kinds.setdefault(_stage(artifact), []).append(artifact)
    walls = {kind: sum(_wall(one) for one in found) for kind, found in kinds.items()}
    total = sum(walls.values())
    rows = []
    for kind, found in kinds.items():
        share = percent(walls[kind] / total if total else None)
        rows.append([kind, count(len(found)), duration(walls[kind]), share, core_hours(found)])
    rows.append(["all", count(len(built)), duration(total), percent(1.0), core_hours([*built.values()])])
    header = ["Stage", "Artifacts", "Wall time", "Share", "Core-hours"]
    bars = [charts.Bar(kind, seconds, duration(seconds)) for kind, seconds in _longest(walls)]
    blocks: list[Block] = [
        Cards(_cost_cards(artifacts, total, core_hours([*built.values()]))),
        Text(_MEANING, quiet=True),
        Figures([Figure("wall-time", "Wall time by stage, the longest first", charts.bars(bars, label="Wall time by stage"))]),
        Table("Time and cost by stage", header, rows, frozenset({1, 2, 3, 4}), frozenset({len(rows) - 1})),
        *_throughput(artifacts),
        _machines(list(built.values())),
    ]
    return Section("costs", "Time, hardware and cost", blocks)


_MEANING = (
    "Wall time is the sum over the builds that finished each artifact: a stage that was stopped and resumed counts from its "
    "last start, and a cached stage counts with the time that it took when it was built. A core-hour is one hour of a busy "
    "processor core, used by the stage and the processes that it started."
)


def _stage(artifact: Artifact) -> str:
    """Return the first part of an artifact's label."""
    return str(artifact.manifest["label"]).split("/")[0]


def _wall(artifact: Artifact) -> float:
    return float(artifact.manifest["wall_seconds"])


def core_hours(artifacts: Sequence[Artifact]) -> str:
    """Return the core-hours of all artifacts, with ≥ if manifests of earlier versions have no processor time."""
    recorded = [artifact.manifest.get("processor_seconds") for artifact in artifacts]
    known = [float(seconds) / 3600 for seconds in recorded if seconds is not None]
    if len(known) == len(recorded):
        return _hours(sum(known))
    return f"≥ {_hours(sum(known))}" if sum(known) >= _MIN_HOURS else MISSING


_MIN_HOURS = 0.01
"""Shorter times are shown as less than this."""


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}" if hours >= _MIN_HOURS or not hours else f"<{_MIN_HOURS}"


def _longest(walls: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    ranked = by_number({kind: round(seconds * 1000) for kind, seconds in walls.items()})
    return [(kind, walls[kind]) for kind, _ in ranked[: charts.MAX_BARS]]


def _trainings(artifacts: Artifacts) -> Iterator[tuple[str, PretrainStats, Artifact]]:
    """Yield each training once, with all its labels: an ablation's rows may be snapshots of one."""
    labels: dict[str, list[str]] = {}
    for label, artifact in artifacts.by_label.items():
        if artifact.stats.keys() >= _TRAINING_STATISTICS:
            labels.setdefault(artifact.name, []).append(label)
    for own in labels.values():
        artifact = artifacts.by_label[own[0]]
        yield ", ".join(own), artifact.stats_as(PretrainStats), artifact


def _cost_cards(artifacts: Artifacts, total: float, hours: str) -> list[Card]:
    cards = [Card("Wall time", duration(total), "of all stages, one after the other")]
    if hours != MISSING:
        cards.append(Card("Cost", f"{hours} core-hours", "of processor time, without accelerators"))
    trainings = list(_trainings(artifacts))
    gpu_hours = sum(_wall(one) * stats.processes / 3600 for _, stats, one in trainings if one.manifest["host"].get("gpus"))
    if gpu_hours:
        cards.append(Card("Pretraining on GPUs", f"{_hours(gpu_hours)} GPU-hours", "wall time × ranks"))
    if trainings:
        _, stats, _ = trainings[0]
        tokens = sum(stats.tokens for _, stats, _ in trainings)
        several = f" in {len(trainings)} trainings" if len(trainings) > 1 else f", {count(stats.steps)} steps"
        cards.append(Card("Tokens trained on", compact(tokens), f"{stats.epochs:.3g} passes over the rows{several}"))
        if stats.tokens_per_second is not None:
            used = stats.model_flops_utilization
            detail = f"{percent(used)} model FLOPs utilisation" if used is not None else "while it trains"
            cards.append(Card("Throughput", f"{compact(stats.tokens_per_second)} tokens/s", detail))
    return cards


_MAX_TRAININGS = 40
"""Maximum number of rows in the table of trainings; a grid of several seeds may have more."""


def _throughput(artifacts: Artifacts) -> list[Block]:
    rows = []
    for label, stats, artifact in list(_trainings(artifacts))[:_MAX_TRAININGS]:
        spec = artifact.manifest["spec"]
        rate = spec.get("optimizer", {}).get("lr")
        rows.append(
            [
                label,
                count(stats.steps),
                count(stats.tokens),
                count(spec.get("global_batch_size")),
                f"{rate:g}" if rate is not None else MISSING,
                count(stats.processes),
                MISSING if stats.tokens_per_second is None else count(stats.tokens_per_second),
                percent(stats.model_flops_utilization),
                percent(stats.loading_share),
            ]
        )
    if not rows:
        return []
    header = ["Training", "Steps", "Tokens", "Batch", "Peak rate", "Ranks", "Tokens/s", "Utilisation", "Waiting for data"]
    return [Table("Throughput of pretraining", header, rows, frozenset(range(1, len(header))))]


def _machines(built: Sequence[Artifact]) -> Table:
    """Show each machine with its software once, and the stages that it built."""
    stages: dict[tuple[str, ...], dict[str, None]] = {}
    for artifact in built:
        host = artifact.manifest["host"]
        gpus = host.get("gpus", [])
        machine = (
            f"{host.get('cores', MISSING)} × {host.get('cpu') or MISSING}",
            f"{len(gpus)} × {gpus[0]}" if gpus else "none",
            str(host.get("machine", MISSING)),
            ", ".join(f"{name}\N{NO-BREAK SPACE}{version}" for name, version in _software(host) if version),
        )
        stages.setdefault(machine, {})[_stage(artifact)] = None
    rows = [[*machine, "all" if len(stages) == 1 else ", ".join(found)] for machine, found in stages.items()]
    header = ["Cores", "GPUs", "System", "Software", "Stages"]
    return Table("Machines", header, rows, prose=frozenset({0, 3, 4}))


def _software(host: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield "korealbert", host.get("korealbert")
    yield "Python", host.get("python")
    for name in ("torch", "transformers", "deepspeed"):
        yield name, host.get("packages", {}).get(name)


_SHORT_DIGEST = 12

_MAX_FILES = 12
"""Maximum number of files listed per artifact; large corpora have thousands of shards."""


def _lineage(artifacts: Artifacts, anchors: set[str]) -> Section:
    """Show the inputs of the report and all their ancestors as a picture and a table, then each file with its digest.

    ``anchors`` are the sections of the report that the picture's boxes link to.
    """
    labels = {artifact.name: label for label, artifact in artifacts.by_label.items()}
    found = ancestors(artifacts.by_label)
    ordered = list(artifacts.by_label.values())
    ordered += [artifact for name, artifact in found.items() if name not in labels]
    header = ["Label", "Artifact", "Built from", "Seeds", "Code", "sha256 of its bytes"]
    rows = [_row(artifact, labels) for artifact in ordered]
    files = [row for artifact in ordered for row in _files(artifact, labels.get(artifact.name, artifact.name))]
    text = (
        "An artifact's name is the hash of its recipe: stage, version, every setting, every input. Equal names mean equal "
        "recipes, equal digests mean equal bytes. The manifest in each artifact's directory holds the whole recipe."
    )
    file_table = Table("Files", ["Artifact", "File", "sha256", "Bytes"], files, frozenset({3}))
    table = Table("Artifacts", header, rows, prose=frozenset({2}))
    listed: list[Block] = [table] if len(rows) <= _MAX_OPEN else [Fold(f"All {len(rows)} artifacts", [table])]
    blocks = [Text(text), *_picture(found, anchors), *listed, Fold("Files and their digests", [file_table])]
    return Section("lineage", "Lineage", blocks)


_MAX_OPEN = 40
"""A table of more artifacts is folded."""

_MAX_BOXES_PER_STAGE = 6
"""If a stage has more artifacts, those whose labels begin alike are drawn as one stack."""

_SECTIONS = {
    **dict.fromkeys(("crawl", "fetch", "extract", "clean", "dedup", "balance"), "corpus"),
    **dict.fromkeys(("vocab", "vocab_sizes"), "vocabulary"),
    **dict.fromkeys(("examples", "views", "cooccurrence"), "training-data"),
    "pretrain": "learning",
    **dict.fromkeys(("export", "features", "finetune", "summary", "search"), "outcome"),
    **dict.fromkeys(("phase1", "phase2", "control"), "curves"),
    **dict.fromkeys(("transfer", "source"), "transfers"),
    **{stage: stage for stage in ("quality", "retrieval", "speed", "split", "intrinsic")},
}
"""Section about each stage; the default is the costs."""


def _picture(found: Mapping[str, Artifact], anchors: set[str]) -> list[Block]:
    if not found:
        return []
    groups = _groups({name: str(artifact.manifest["label"]) for name, artifact in found.items()})
    members: dict[str, list[Artifact]] = {}
    for name, artifact in found.items():
        members.setdefault(groups[name], []).append(artifact)
    above: dict[str, set[str]] = {group: set() for group in members}
    for name, artifact in found.items():
        above[groups[name]] |= {groups[parent] for parent in artifact.manifest["inputs"].values()} - {groups[name]}
    boxes = [
        Box(group, _inside(own), f"#{anchor}" if (anchor := _anchor(group, anchors)) else "", len(own) > 1)
        for group, own in members.items()
    ]
    label = f"The graph of the {count(len(found))} artifacts that this report was made from"
    svg = layered(boxes, above, label=label)
    caption = f"How it was made: {count(len(found))} artifacts, each with its name, wall time and documents dropped"
    note = (
        "Boxes link to the sections about them. A stack stands for several artifacts. Inputs that a longer path shows have no "
        "arrow; the table lists all inputs."
    )
    return [Figures([Figure("lineage", caption, svg, wide=True)]), Text(note, quiet=True)]


def _anchor(group: str, anchors: set[str]) -> str:
    wanted = _SECTIONS.get(group.split("/", maxsplit=1)[0], "costs")
    return next((anchor for anchor in (wanted, "table", "korean", "published", "costs") if anchor in anchors), "")


def _groups(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the box of each artifact: its label, or the longest prefix with which its stage has few enough boxes."""
    stages: dict[str, list[str]] = {}
    for name, label in labels.items():
        stages.setdefault(label.split("/")[0], []).append(name)
    found: dict[str, str] = {}
    for names in stages.values():
        for depth in range(max(labels[name].count("/") for name in names) + 1, 0, -1):
            cut = {name: "/".join(labels[name].split("/")[:depth]) for name in names}
            if depth == 1 or len(set(cut.values())) <= _MAX_BOXES_PER_STAGE:
                found |= cut
                break
    return found


def _inside(own: Sequence[Artifact]) -> list[str]:
    """Return the lines of a box below its label: name or number of artifacts, wall time and dropped documents."""
    facts = [duration(sum(map(_wall, own)))]
    if any("documents_in" in one.stats for one in own):
        dropped = sum(sum(one.stats.get("dropped", {}).values()) + one.stats.get("quarantined", 0) for one in own)
        facts.append(f"{compact(dropped)} dropped" if dropped else "none dropped")
    return [own[0].name if len(own) == 1 else f"{len(own)} artifacts", " · ".join(facts)]


def _files(artifact: Artifact, label: str) -> list[list[str]]:
    entries = sorted(artifact.manifest["files"].items())
    rows = [[label, name, entry["sha256"][:_SHORT_DIGEST], f"{entry['size']:,}"] for name, entry in entries[:_MAX_FILES]]
    if len(entries) > _MAX_FILES:
        size = sum(entry["size"] for _, entry in entries[_MAX_FILES:])
        rows.append([label, f"{len(entries) - _MAX_FILES:,} more, see its manifest", MISSING, f"{size:,}"])
    return rows


def _row(artifact: Artifact, labels: Mapping[str, str]) -> list[str]:
    manifest = artifact.manifest
    recipe = manifest["recipe"]
    parents = [labels.get(name, name) for name in manifest["inputs"].values()]
    fields = flat(manifest["spec"])
    seeding = [name for name in fields if f".{name}".endswith((".seed", "_seed"))]
    seeds = ", ".join(f"{name}\N{NO-BREAK SPACE}{fields[name]}" for name in seeding) or MISSING
    code = f"{manifest['host'].get('korealbert', MISSING)}, {recipe['stage']} v{recipe['version']}"
    digest = artifact.output_digest[:_SHORT_DIGEST]
    label = labels.get(artifact.name, manifest.get("label", MISSING))
    return [label, artifact.name, ", ".join(parents) or "raw input", seeds, code, digest]


_TERMS = {
    "± sd": "mean and sample standard deviation (n − 1) over seeds",
    "interval": "range that holds the true mean in that share of repetitions, over other seeds and other examples",
    "seed": "number that fixes the order of examples, dropout and fresh weights of a run",
    "pretrained": "fine-tuned from this run's pretrained weights",
    "random": "fine-tuned from random weights of the same architecture, as a lower bound",
    "Corrected": "the same predictions, scored as the benchmark's paper defines, without errors of its script",
    "Oracle": "the best score that the tokenizer's pieces and the length limit allow",
    "MLM": "masked language modelling: pieces hidden in the text are predicted",
    "SOP": "sentence-order prediction: are two neighbouring segments in order or swapped?",
    "NSP": "next-sentence prediction: does the second segment follow the first?",
    "WOP": "word-order prediction: what was the original position of a moved word?",
    "RTD": "replaced-token detection: which pieces did a generator replace?",
    "held out": "rows of documents that were kept out of training",
    "perplexity": "exp of the mean cross-entropy: as uncertain as a choice among so many equally probable pieces",
    "piece": "entry of the vocabulary: a word or a part of one",
    "McNemar": "test of whether two systems err on different numbers of the same examples",
    "Quarantined": "input that could not be read; kept aside with the reason and a remedy",
    "Utilisation": "model FLOPs utilisation: operations of the model per second, as a share of what the hardware can do",
    "ITL": "implicit translation layer: a layer added at either end of a transferred encoder",
}
"""Explanations of terms in tables and figures."""


def _terms(sections: Sequence[Section]) -> list[Block]:
    text = markdown("", "", sections)
    rows = [[term, meaning] for term, meaning in _TERMS.items() if re.search(rf"(?<!\w){re.escape(term)}", text)]
    return [Fold("Terms and abbreviations", [Table("Terms", ["Term", "Meaning"], rows, prose=frozenset({1}))])] if rows else []
