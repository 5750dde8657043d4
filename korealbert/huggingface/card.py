"""The model card: what a model was made of and how well it does, from the manifests of everything it was built from.

Rendered by the export stage, and again with fine-tuning scores once they exist. It holds no dates and no machine facts, so the
same recipe gives the same card.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from korealbert.artifact import Artifact, ancestors
from korealbert.documents.schema import Document
from korealbert.documents.shards import DocumentStats
from korealbert.examples.packing import ExamplesStats
from korealbert.examples.views import ViewsStats
from korealbert.formatting import flat, spread
from korealbert.huggingface.checkpoint import SourceStats, family_of, repeats_blocks
from korealbert.huggingface.licenses import OTHER, combined
from korealbert.model.config import AnyConfig, ModelConfig, read_config
from korealbert.pretrain.stage import PretrainStats, Reached
from korealbert.vocab.stage import KeptVocabStats, VocabularyFacts
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES

_Row = Sequence[object]


@dataclass(frozen=True)
class ModelFacts:
    """Facts of the card that no manifest has."""

    title: str
    license: str
    config: AnyConfig
    sequence_length: int
    """Tokens of a pretraining sequence."""
    snapshot: int | None = None
    """Step of the training whose weights these are; None: its end."""

    @classmethod
    def of(cls, pretrain: Artifact, *, title: str, license: str, snapshot: int | None) -> Self:
        """The facts of a pretrained model once it is exported under this title and license."""
        config = read_config(pretrain.path)
        return cls(title, license, config, pretrain.stats_as(PretrainStats).sequence_length, snapshot)


@dataclass(frozen=True)
class FinetunedScores:
    """Scores of one fine-tuning cell by the task's own metric, times 100."""

    benchmark: str
    """The recipe's name of the task and its settings: two settings of one task are two benchmarks."""
    init: str
    metric: str
    dev: float | None
    """None where the benchmark's own script prints ``nan``; ``test`` likewise."""
    test: float | None


def model_card(
    facts: ModelFacts, pretrain: Artifact, *, finetuned: Iterable[FinetunedScores] = (), limits: Sequence[str] = ()
) -> str:
    """The card as Markdown with the hub's YAML header.

    ``pretrain`` is the pretraining artifact, whose ancestors tell the rest; a section whose stage is not among them is left
    out. ``finetuned`` holds one entry per seed; ``limits`` are told beside those of every card.
    """
    found = _by_stage(_made_of(pretrain))
    sections = [
        _header(facts, found),
        _summary(facts, pretrain, found),
        _usage(facts),
        _corpus(found),
        _drops(found),
        _vocabulary(found),
        _noise(found),
        _training(facts, pretrain),
        _scores(facts, pretrain),
        _finetuning(list(finetuned)),
        _limits(facts, found, limits),
        _origin(found),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def dataset_card(title: str, artifacts: Sequence[Artifact]) -> str:
    """The card of a dataset that holds the documents of ``artifacts``, as Markdown with the hub's YAML header."""
    found = _by_stage(ancestors({artifact.name: artifact for artifact in artifacts}).values())
    every = [artifact.stats_as(DocumentStats) for artifact in artifacts]
    documents, characters = (sum(getattr(stats, name) or 0 for stats in every) for name in ("documents_out", "characters_out"))
    license, _ = license_of(artifacts)
    other = "license_name: corpora\nlicense_link: README.md#corpus\n" if license == OTHER else ""
    sections = [
        f"---\nlanguage: ko\nlicense: {license}\n{other}"
        f"size_categories:\n- {_size_category(documents)}\ntags:\n- korean\n- pretraining\n---",
        f"# {_escaped(title)}\n\n{_number(documents)} documents, {_number(characters)} characters. Columns: "
        f"{', '.join(field.name for field in fields(Document))}; all are text, empty where unknown. Rows share an id where "
        "they are copies, or their records had one id in the source.",
        '```python\nfrom datasets import load_dataset\n\ndataset = load_dataset("path/to/this/directory", split="train")\n```',
        _corpus(found),
        _drops(found),
        _origin(found),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def license_of(artifacts: Sequence[Artifact]) -> tuple[str, str]:
    """The license that follows from those of all sources behind some artifacts, and why it is ``other``, or nothing."""
    behind = ancestors({artifact.name: artifact for artifact in artifacts}).values()
    specs = [artifact.manifest["spec"] for artifact in behind if artifact.manifest["recipe"]["stage"] == "extract"]
    if any(artifact.manifest["recipe"]["stage"] == "xpt_source" for artifact in behind):
        return OTHER, "it was trained on from the weights of another model, whose license counts too"
    return combined({str(spec["source"]): str(spec.get("license", "")) for spec in specs})


def _size_category(documents: int) -> str:
    """The hub's name for a number of rows: ``10K<n<100K``."""
    names = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B")
    above = sum(documents >= 1_000 * 10**power for power in range(len(names)))
    return "n<1K" if not above else f"{names[above - 1]}<n<{names[above]}" if above < len(names) else "n>10B"


def _made_of(pretrain: Artifact) -> list[Artifact]:
    """All ancestors of a model and itself, but not what the source of a transfer was made of: that is another model."""
    behind = [
        artifact for artifact in ancestors({"": pretrain}).values() if artifact.manifest["recipe"]["stage"] == "xpt_source"
    ]
    hidden = {name for source in behind for name in ancestors(source.inputs())}
    return [artifact for name, artifact in ancestors({"": pretrain}).items() if name not in hidden]


def _by_stage(artifacts: Iterable[Artifact]) -> dict[str, list[Artifact]]:
    found: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        found[artifact.manifest["recipe"]["stage"]].append(artifact)
    return {stage: sorted(group, key=lambda artifact: str(artifact.manifest["label"])) for stage, group in found.items()}


def _header(facts: ModelFacts, ancestors: Mapping[str, list[Artifact]]) -> str:
    other = "license_name: corpora\nlicense_link: README.md#corpus\n" if facts.license == "other" else ""
    kept = [artifact.stats_as(KeptVocabStats).tokens["mask"] for artifact in ancestors.get("xpt_tokenizer", [])]
    mask = f'pipeline_tag: fill-mask\nmask_token: "{kept[0] if kept else SPECIAL_PIECES[SPECIAL.mask]}"\n'
    fills = mask if not facts.config.generator_hidden_size else ""
    return (
        f"---\nlanguage: ko\nlicense: {facts.license}\n{other}library_name: transformers\n"
        f"{fills}tags:\n- {family_of(facts.config).model_type}\n- korean\n- pretraining\n---"
    )


def _summary(facts: ModelFacts, pretrain: Artifact, ancestors: Mapping[str, list[Artifact]]) -> str:
    config, parameters = facts.config, pretrain.stats_as(PretrainStats).parameters
    spec = pretrain.manifest["spec"]
    others = {
        "sop_weight": "sentence order (SOP)",
        "wop_weight": "word order (WOP)",
        "bow_weight": "bags of masked tokens (BoW)",
    }
    tasks = ["masked tokens (MLM)", *(task for field, task in others.items() if spec.get(field))]
    if spec.get("objective") == "rtd":
        tasks = ["replaced tokens (RTD)"]
    origin = "after the KoreALBERT and ALBERT papers"
    for source in ancestors.get("xpt_source", []):
        post_training = "cross-lingual post-training (Lee et al. 2021; Son et al. 2022) of an English encoder"
        origin = (
            f"by {'continued pretraining of an encoder' if 'xpt_tokenizer' in ancestors else post_training} of "
            f"{source.stats_as(SourceStats).layers} layers, the artifact `{source.name}`"
        )
    return (
        f"# {_escaped(facts.title)}\n\nA Korean {family_of(config).title}: "
        f"{config.num_layers} layers of width {config.hidden_size}, "
        f"{parameters:,} parameters with its pretraining heads, pretrained on {' and '.join(tasks)} "
        f"{origin}. It encodes Korean text; fine-tune it to classify, tag or compare texts."
    )


def _usage(facts: ModelFacts) -> str:
    return (
        "## Use\n\n```python\nfrom transformers import AutoModel, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/directory")\n'
        'model = AutoModel.from_pretrained("path/to/this/directory")\n'
        'hidden = model(**tokenizer("한국어 문장을 벡터로 바꿉니다.", return_tensors="pt")).last_hidden_state\n```\n\n'
        f"{_loaders(facts.config)} the same files. "
        "All weights that these classes want are here; "
        "transformers lists the heads that a class has no use for as unexpected, which is harmless."
    )


def _loaders(config: AnyConfig) -> str:
    architecture = family_of(config).architecture
    return f"`{architecture}` loads" if config.generator_hidden_size else f"`AutoModelForMaskedLM` and `{architecture}` load"


def _corpus(ancestors: Mapping[str, list[Artifact]]) -> str:
    extracts = ancestors.get("extract", [])
    if not extracts:
        return ""
    cleaned = {parent.name: clean for clean in ancestors.get("clean", []) for parent in clean.inputs().values()}
    rows = []
    for extract in extracts:
        spec, after = extract.manifest["spec"], cleaned.get(extract.name)
        rows.append(
            (
                _escaped(spec.get("source", extract.manifest["label"])),
                _escaped(spec.get("license") or "not stated"),
                *_sizes(extract),
                *(_sizes(after)[:2] if after else ("", "")),
            )
        )
    head = ("source", "license", "documents", "characters", "bytes", "documents after cleaning", "characters after cleaning")
    lines = ["## Corpus\n\n" + _table(head, rows)]
    later = (
        ("dedup", "After deduplication"),
        ("quality", "After the choice by quality"),
        ("balance", "After balancing of categories"),
    )
    for stage, text in later:
        for artifact in ancestors.get(stage, []):
            documents, characters, size = _sizes(artifact)
            copies = artifact.stats_as(DocumentStats).repeated
            among = (
                f", {_number(copies)} of them further copies, with the ids of the documents that they copy" if copies else ""
            )
            lines.append(f"{text}: {documents} documents{among}, {characters} characters, {size} bytes.")
    return "\n\n".join(lines)


def _sizes(artifact: Artifact) -> tuple[str, str, str]:
    stats = artifact.stats_as(DocumentStats)
    return _number(stats.documents_out), _number(stats.characters_out), _number(stats.bytes_out)


def _drops(ancestors: Mapping[str, list[Artifact]]) -> str:
    rows: list[_Row] = []
    for stage in ("extract", "clean", "dedup", "quality", "balance", "examples"):
        total: Counter[str] = Counter()
        for artifact in ancestors.get(stage, []):
            stats = artifact.stats_as(DocumentStats)
            total.update(stats.dropped)
            if stats.quarantined:
                total["unreadable (quarantined)"] += stats.quarantined
        rows += [(stage, _escaped(reason), _number(count)) for reason, count in total.most_common()]
    if not rows:
        return ""
    return "## What was left out\n\n" + _table(("stage", "reason", "documents"), rows)


_MORPHEMES = (
    "**Text must be cut into morphemes before this tokenizer sees it**, as in pretraining; `AutoTokenizer` cannot do that, and "
    "without it words come out in other pieces than the model knows. In Python:\n\n```python\n"
    "from korealbert.vocab.morphemes import for_directory\n\n"
    'path = Path("path/to/this/directory")\ntokenizer = for_directory(AutoTokenizer.from_pretrained(path), path)\n```\n\n'
    "`korealbert fill-mask` and the fine-tuning of korealbert do so by themselves. Other programs put U+2063 between the "
    "morphemes of each word, as the analyser named in `morphemes.json` finds them word by word."
)
"""What a user of such a vocabulary must know."""


def _vocabulary(ancestors: Mapping[str, list[Artifact]]) -> str:
    described = []
    kinds = {"vocab": "SentencePiece, cased.", "xpt_tokenizer": "The tokenizer of the encoder that it was trained on from."}
    for artifact in (artifact for kind in kinds for artifact in ancestors.get(kind, [])):
        stats = artifact.stats_as(VocabularyFacts)
        shown = {
            "pieces": stats.pieces,
            "characters per piece": stats.characters_per_piece,
            "pieces per word": stats.pieces_per_word,
            "unknown share": stats.unknown_share,
        }
        described.append(f"## Vocabulary\n\n{kinds[artifact.manifest['recipe']['stage']]} {_sentence(shown)}")
        if artifact.manifest["spec"].get("morphemes") == "everywhere":
            described.append(_MORPHEMES)
    return "\n\n".join(described)


def _noise(ancestors: Mapping[str, list[Artifact]]) -> str:
    if not ancestors.get("views"):
        return ""
    parts = []
    for artifact in ancestors.get("examples", []):
        rows = artifact.stats_as(ExamplesStats)
        shown = {
            "rows train": rows.rows_train,
            "rows heldout": rows.rows_heldout,
            "pieces": rows.pieces,
            "fill": rows.fill,
        }
        parts.append(f"Examples: {_sentence(shown)}")
    for artifact in ancestors["views"]:
        noise = artifact.stats_as(ViewsStats)
        realised = {
            "views": noise.views,
            "mlm rate": noise.mlm_rate,
            "wop rate": noise.wop_rate,
            "wop rows": noise.wop_rows,
            "rows": noise.rows,
            "sop swapped": noise.sop_swapped,
            "sop rows": noise.sop_rows,
        }
        parts.append(f"Realised noise: {_sentence(realised)}")
        parts.append("Settings:\n\n" + _settings(artifact.manifest["spec"]))
    return "## Training examples\n\n" + "\n\n".join(parts)


def _training(facts: ModelFacts, pretrain: Artifact) -> str:
    reached, spec = Reached.of(pretrain, facts.snapshot), pretrain.manifest["spec"]
    long, length = spec.get("long"), f"of {facts.sequence_length} tokens"
    if long:
        length = f"(shorter ones first, those {length} from update {_number(long['from_step'])} on)"
    text = f"{_number(reached.steps)} updates of {_number(spec['global_batch_size'])} sequences {length}"
    told = [f"{_number(reached.tokens)} tokens"] if reached.tokens is not None else []
    told += [f"{reached.epochs} epochs"] if reached.epochs is not None else []
    text += f": {', '.join(told)}." if told else "."
    if facts.snapshot is not None:
        text += f" These are the weights after step {facts.snapshot:,} of a training of {_number(spec['steps'])}."
    return f"## Pretraining\n\n{text}\n\n" + _settings(spec)


def _scores(facts: ModelFacts, pretrain: Artifact) -> str:
    heldout = Reached.of(pretrain, facts.snapshot).heldout or {}
    names = {
        "mlm_accuracy": "masked tokens: accuracy",
        "mlm_perplexity": "masked tokens: perplexity",
        "sop_accuracy": "sentence order: accuracy",
        "wop_accuracy": "word order: accuracy on moved tokens",
        "rtd_accuracy": "replaced tokens: accuracy on all tokens",
        "replaced_accuracy": "replaced tokens: share found",
    }
    rows = [(title, f"{value:.4g}") for name, title in names.items() if (value := heldout.get(name)) is not None]
    if not rows:
        if pretrain.stats_as(PretrainStats).heldout:
            return f"## Scores\n\nThe training did not score its held-out documents after step {facts.snapshot:,}."
        return "## Scores\n\nNo documents were held out of pretraining, so there are no intrinsic scores."
    return "## Scores on held-out documents\n\n" + _table(("measure", "value"), rows)


def _finetuning(cells: list[FinetunedScores]) -> str:
    if not cells:
        return ""
    groups: dict[tuple[str, str, str], list[FinetunedScores]] = defaultdict(list)
    for cell in cells:
        groups[cell.benchmark, cell.init, cell.metric].append(cell)
    rows = [
        (
            *key,
            len(group),
            *(
                "undefined" if None in found else spread([value for value in found if value is not None])
                for found in ([cell.dev for cell in group], [cell.test for cell in group])
            ),
        )
        for key, group in sorted(groups.items())
    ]
    head = ("benchmark", "weights", "metric", "seeds", "dev", "test")
    text = "Mean ± standard deviation over seeds; `random`: fresh weights under the same budget."
    return f"## Fine-tuning\n\n{text}\n\n" + _table(head, rows)


def untrained_parts(config: AnyConfig) -> list[str]:
    """What an export holds that pretraining did not train. The stage's own card leaves it out: those of earlier versions have
    no word of it, and an artifact of one name has one content."""
    if not isinstance(config, ModelConfig) or family_of(config).model_type != "albert":
        return []
    size = config.hidden_size
    if config.embedding_size != size:
        return []
    return [
        "Embeddings are as wide as the layers, and this format projects them all the same: by an identity, which pretraining "
        f"did not have. Other programs train its {size * size + size:,} parameters with the rest; korealbert does not."
    ]


def _limits(facts: ModelFacts, ancestors: Mapping[str, list[Artifact]], more: Sequence[str]) -> str:
    config = facts.config
    limits = [
        "It reproduces what its corpora say, biases and errors included; nothing was filtered for harmful content unless a "
        "reason above says so.",
        "It encodes text and fills gaps; it does not write text.",
        "Held-out scores are on documents of the same sources and say little about other kinds of text.",
    ]
    if config.max_positions > facts.sequence_length:
        limits.append(
            f"Positions {facts.sequence_length}–{config.max_positions - 1} were never trained: inputs beyond "
            f"{facts.sequence_length} tokens need fine-tuning on long inputs or a sliding window."
        )
    if isinstance(config, ModelConfig) and repeats_blocks(config):
        limits.append(
            f"This export is untied. Sharing `{config.share}` with {config.num_groups} group(s) cannot be said in this format: "
            "the layers are written out as equal copies. Outputs are the same, but the file holds more parameters than were "
            "trained, and other programs fine-tune each copy on its own; korealbert fine-tunes what layers share as one."
        )
    if (
        isinstance(config, ModelConfig)
        and family_of(config).model_type == "albert"
        and config.ffn_dropout
        and config.hidden_dropout
    ):
        limits.append(
            "Pretraining had dropout after the feed-forward blocks, which this class does not apply when it is fine-tuned."
        )
    limits += more
    if ancestors.get("extract"):
        limits.append("The licenses of the corpora above may bind those who redistribute the model.")
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)


def _origin(ancestors: Mapping[str, list[Artifact]]) -> str:
    names = [f"`{artifact.name}`" for stage in ancestors.values() for artifact in stage]
    return "## Origin\n\nBuilt from the artifacts " + ", ".join(names) + "; equal names mean equal recipes."


def _sentence(facts: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in facts.items() if value is not None) + "."


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


_MARKUP = {ord(sign): f"\\{sign}" for sign in "\\[]`"} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def _escaped(text: object) -> str:
    """Text from recipes and corpora in one line, in which no tag, link or code span begins."""
    return _one_line(text).translate(_MARKUP)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _settings(spec: Mapping[str, Any]) -> str:
    # No backslash ends a code span's backtick, so a value must have none.
    shown = {name: _one_line(value).replace("`", "'") for name, value in flat(spec).items()}
    return _table(("setting", "value"), [(_escaped(name), f"`{value}`") for name, value in shown.items()])


def _table(head: Sequence[str], rows: Iterable[_Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
