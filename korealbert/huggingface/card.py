"""Cards of models and datasets in Markdown, written from the manifests of an artifact and its ancestors.

The export stage writes a model's card, and the report writes it again with fine-tuning scores. A card holds no dates and no
facts about machines, so equal recipes give equal cards.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from korealbert.artifact import Artifact, Statistics, ancestors
from korealbert.corpus import ledger
from korealbert.corpus.clean.stage import CleanStats
from korealbert.documents.schema import Document
from korealbert.documents.shards import DocumentStats
from korealbert.examples.packing import ExamplesStats
from korealbert.examples.views import ViewsStats
from korealbert.formatting import flat, spread
from korealbert.huggingface.checkpoint import SourceStats, family_of, repeats_blocks
from korealbert.huggingface.columns import Column
from korealbert.huggingface.licenses import OTHER, combined
from korealbert.model.config import AnyConfig, ModelConfig, read_config
from korealbert.pretrain.stage import PretrainStats, Reached
from korealbert.vocab.stage import KeptVocabStats, VocabularyFacts
from korealbert.vocab.tokenizer import SPECIAL, SPECIAL_PIECES

_Row = Sequence[object]
_ByStage = Mapping[str, Sequence[Artifact]]


@dataclass(frozen=True)
class ModelFacts:
    """Facts for the card that are not in a manifest."""

    title: str
    license: str
    config: AnyConfig
    sequence_length: int
    """Tokens of the last pretraining sequences that these weights have seen."""
    snapshot: int | None = None
    """Training step that the weights are from; None for the end of training."""

    @classmethod
    def of(cls, pretrain: Artifact, *, title: str, license: str, snapshot: int | None) -> Self:
        """Return the facts of a pretrained model that is exported under this title and license."""
        length = pretrain.stats_as(PretrainStats).sequence_length
        if snapshot is not None and (long := pretrain.manifest["spec"].get("long")) and snapshot <= long["from_step"]:
            length = int(pretrain.inputs()["examples"].manifest["spec"]["sequence_length"])
        return cls(title, license, read_config(pretrain.path), length, snapshot)


@dataclass(frozen=True)
class FinetunedScores:
    """Scores of one fine-tuning cell in the task's main metric, times 100."""

    benchmark: str
    """Name of the benchmark in the recipe. Two settings of one task are two benchmarks."""
    init: str
    metric: str
    dev: float | None
    """None if the benchmark's official script prints ``nan``; the same holds for ``test``."""
    test: float | None


def model_card(
    facts: ModelFacts, pretrain: Artifact, *, finetuned: Iterable[FinetunedScores] = (), limits: Sequence[str] = ()
) -> str:
    """Return a model's card as Markdown with the hub's YAML header.

    The facts come from ``pretrain`` and its ancestors; sections about stages that are not among these are left out.
    ``finetuned`` has one entry per seed. ``limits`` are listed after those that every card has.
    """
    found = _by_stage(_model_and_ancestors(pretrain))
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


def dataset_card(title: str, artifacts: Sequence[Artifact], computed: Sequence[Column] = ()) -> str:
    """Return the card of a dataset with the documents of ``artifacts``, as Markdown with the hub's YAML header.

    ``computed`` are its columns in addition to those of documents.
    """
    found = _by_stage(ancestors({artifact.name: artifact for artifact in artifacts}).values())
    every = [artifact.stats_as(DocumentStats) for artifact in artifacts]
    documents, characters = (sum(getattr(stats, name) or 0 for stats in every) for name in ("documents_out", "characters_out"))
    license, _ = license_of(artifacts)
    sections = [
        f"---\n{_languages(found)}{_license_fields(license)}"
        f"size_categories:\n- {_size_category(documents)}\ntags:\n- korean\n- pretraining\n"
        # Without this, datasets takes the beginning of a file's name (balance) for its split.
        "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/*\n---",
        f"# {_escaped(title)}\n\n{_number(documents)} documents, {_number(characters)} characters. Columns: "
        f"{', '.join(field.name for field in fields(Document))}; all are text, empty where unknown. Rows share an id where "
        "they are copies, or their records had one id in the source.",
        _columns(computed),
        '```python\nfrom datasets import load_dataset\n\ndataset = load_dataset("path/to/this/directory", split="train")\n```',
        _corpus(found),
        _by_source(found),
        _origin(found),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _columns(computed: Sequence[Column]) -> str:
    if not computed:
        return ""
    rows = [(f"`{column.name}`", column.meaning) for column in computed]
    return "Further columns have what was computed about each text, null where it was not:\n\n" + _table(
        ("column", "value"), rows
    )


def license_of(artifacts: Sequence[Artifact]) -> tuple[str, str]:
    """Return the license that follows from those of all sources of the artifacts, and the reason if it is ``other``."""
    by_stage = _by_stage(ancestors({artifact.name: artifact for artifact in artifacts}).values())
    if "xpt_source" in by_stage:
        return OTHER, "it was trained on from the weights of another model, whose license counts too"
    specs = [artifact.manifest["spec"] for artifact in by_stage.get("extract", [])]
    return combined({str(spec["source"]): str(spec.get("license", "")) for spec in specs})


def _license_fields(license: str) -> str:
    return f"license: {license}\n" + ("license_name: corpora\nlicense_link: README.md#corpus\n" if license == OTHER else "")


def _size_category(documents: int) -> str:
    """The hub's size category: ``10K<n<100K``."""
    names = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B")
    above = sum(documents >= 1_000 * 10**power for power in range(len(names)))
    return "n<1K" if not above else f"{names[above - 1]}<n<{names[above]}" if above < len(names) else "n>10B"


def _model_and_ancestors(pretrain: Artifact) -> list[Artifact]:
    """A model and its ancestors, without the ancestors of a transfer's source, which belong to another model."""
    found = ancestors({"": pretrain})
    sources = [artifact for artifact in found.values() if artifact.manifest["recipe"]["stage"] == "xpt_source"]
    hidden = {name for source in sources for name in ancestors(source.inputs())}
    return [artifact for name, artifact in found.items() if name not in hidden]


def _by_stage(artifacts: Iterable[Artifact]) -> dict[str, list[Artifact]]:
    found: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        found[artifact.manifest["recipe"]["stage"]].append(artifact)
    return {stage: sorted(group, key=lambda artifact: str(artifact.manifest["label"])) for stage, group in found.items()}


def _header(facts: ModelFacts, by_stage: _ByStage) -> str:
    kept = [artifact.stats_as(KeptVocabStats).tokens["mask"] for artifact in by_stage.get("xpt_tokenizer", [])]
    mask = f'pipeline_tag: fill-mask\nmask_token: "{kept[0] if kept else SPECIAL_PIECES[SPECIAL.mask]}"\n'
    return (
        f"---\nlanguage: ko\n{_license_fields(facts.license)}library_name: transformers\n"
        f"{'' if facts.config.generator_hidden_size else mask}"
        f"tags:\n- {family_of(facts.config).model_type}\n- korean\n- pretraining\n---"
    )


def _summary(facts: ModelFacts, pretrain: Artifact, by_stage: _ByStage) -> str:
    config, parameters = facts.config, pretrain.stats_as(PretrainStats).parameters
    origin = "after the KoreALBERT and ALBERT papers"
    for source in by_stage.get("xpt_source", []):
        post_training = "cross-lingual post-training (Lee et al. 2021; Son et al. 2022) of an English encoder"
        origin = (
            f"by {'continued pretraining of an encoder' if 'xpt_tokenizer' in by_stage else post_training} of "
            f"{source.stats_as(SourceStats).layers} layers, the artifact `{source.name}`"
        )
    return (
        f"# {_escaped(facts.title)}\n\nA Korean {family_of(config).title}: "
        f"{config.num_layers} layers of width {config.hidden_size}, "
        f"{parameters:,} parameters with its pretraining heads, pretrained on {' and '.join(_tasks(pretrain))} "
        f"{origin}. It encodes Korean text; fine-tune it to classify, tag or compare texts."
    )


def _tasks(pretrain: Artifact) -> list[str]:
    """Name the tasks of which the noise had targets."""
    spec = pretrain.manifest["spec"]
    if spec.get("objective") == "rtd":
        return ["replaced tokens (RTD)"]
    noise = [made.manifest["spec"] for role, made in pretrain.inputs().items() if role in {"views", "views_long"}]
    sentences = {of_noise.get("sentence_task", "sop") for of_noise in noise}
    moved = any(of_noise.get("word_order", {}).get("portion", 1.0) for of_noise in noise)
    tasks = {
        "masked tokens (MLM)": True,
        "next sentences (NSP)": spec.get("sop_weight") and "nsp" in sentences,
        "sentence order (SOP)": spec.get("sop_weight") and "sop" in sentences,
        "word order (WOP)": spec.get("wop_weight") and moved,
        "bags of masked tokens (BoW)": spec.get("bow_weight"),
    }
    return [task for task, trained in tasks.items() if trained]


def _usage(facts: ModelFacts) -> str:
    architecture = family_of(facts.config).architecture
    discriminator = bool(facts.config.generator_hidden_size)  # It fills no masks.
    loaders = f"`{architecture}` loads" if discriminator else f"`AutoModelForMaskedLM` and `{architecture}` load"
    return (
        "## Use\n\n```python\nfrom transformers import AutoModel, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/directory")\n'
        'model = AutoModel.from_pretrained("path/to/this/directory")\n'
        'hidden = model(**tokenizer("한국어 문장을 벡터로 바꿉니다.", return_tensors="pt")).last_hidden_state\n```\n\n'
        f"{loaders} the same files. "
        "All weights that these classes want are here; "
        "transformers lists the heads that a class has no use for as unexpected, which is harmless."
    )


def _corpus(by_stage: _ByStage) -> str:
    extracts = by_stage.get("extract", [])
    if not extracts:
        return ""
    cleaned = {parent.name: clean for clean in by_stage.get("clean", []) for parent in clean.inputs().values()}
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
        for artifact in by_stage.get(stage, []):
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


def _by_source(by_stage: _ByStage) -> str:
    """Return a table of what became of the documents of each source, every column of which adds up."""
    sources, lines = ledger.rows(ledger.ledger(by_stage))
    if not lines:
        return ""
    rows = [
        (_escaped(label), _number(sum(numbers.values())), *(_number(numbers.get(source, 0)) for source in sources))
        for label, numbers in lines
    ]
    return "## What was left out\n\n" + _table(("documents", "all", *map(_escaped, sources)), rows)


def _languages(by_stage: _ByStage) -> str:
    """Return the hub's field of languages: those that a hundredth of the documents have and that were kept; else Korean."""
    total: Counter[str] = Counter()
    for artifact in by_stage.get("clean", []):
        kept = (artifact.manifest["spec"].get("language") or {}).get("keep")
        counted = artifact.stats_as(CleanStats).languages
        total.update({name: number for name, number in counted.items() if kept is None or name in kept})
    total -= Counter({name: total[name] for name in ("", "other")})
    names = [name for name, number in total.most_common() if number >= total.total() / 100] or ["ko"]
    return f"language: {names[0]}\n" if len(names) == 1 else "language:\n" + "".join(f"- {name}\n" for name in names)


def _drops(by_stage: _ByStage) -> str:
    rows: list[_Row] = []
    for stage in ("extract", "clean", "dedup", "quality", "balance", "examples"):
        total: Counter[str] = Counter()
        for artifact in by_stage.get(stage, []):
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
"""What users of a vocabulary of morphemes must know."""


def _vocabulary(by_stage: _ByStage) -> str:
    paragraphs = []
    kinds = {"vocab": "SentencePiece, cased.", "xpt_tokenizer": "The tokenizer of the encoder that it was trained on from."}
    for artifact in (artifact for kind in kinds for artifact in by_stage.get(kind, [])):
        stats = artifact.stats_as(VocabularyFacts)
        facts = _sentence(stats, "pieces", "characters_per_piece", "pieces_per_word", "unknown_share")
        paragraphs.append(f"## Vocabulary\n\n{kinds[artifact.manifest['recipe']['stage']]} {facts}")
        if artifact.manifest["spec"].get("morphemes") == "everywhere":
            paragraphs.append(_MORPHEMES)
    return "\n\n".join(paragraphs)


def _noise(by_stage: _ByStage) -> str:
    if not by_stage.get("views"):
        return ""
    parts = ["## Training examples"]
    for artifact in by_stage.get("examples", []):
        rows = artifact.stats_as(ExamplesStats)
        parts.append(f"Examples: {_sentence(rows, 'rows_train', 'rows_heldout', 'pieces', 'fill')}")
    for artifact in by_stage["views"]:
        noise = artifact.stats_as(ViewsStats)
        names = ("views", "mlm_rate", "wop_rate", "wop_rows", "rows", "sop_swapped", "sop_rows")
        parts.append(f"Realised noise: {_sentence(noise, *names)}")
        parts.append("Settings:\n\n" + _settings(artifact.manifest["spec"]))
    return "\n\n".join(parts)


def _training(facts: ModelFacts, pretrain: Artifact) -> str:
    reached, spec = Reached.of(pretrain, facts.snapshot), pretrain.manifest["spec"]
    long, length = spec.get("long"), f"of {facts.sequence_length} tokens"
    if long and reached.steps > long["from_step"]:
        length = f"(shorter ones first, those {length} after update {_number(long['from_step'])})"
    text = f"{_number(reached.steps)} updates of {_batch_sizes(spec, reached.steps)} sequences {length}"
    amounts = [f"{_number(reached.tokens)} tokens"] if reached.tokens is not None else []
    amounts += [f"{reached.epochs} epochs"] if reached.epochs is not None else []
    text += f": {', '.join(amounts)}." if amounts else "."
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
        (*key, len(group), _over_seeds([cell.dev for cell in group]), _over_seeds([cell.test for cell in group]))
        for key, group in sorted(groups.items())
    ]
    head = ("benchmark", "weights", "metric", "seeds", "dev", "test")
    text = "Mean ± standard deviation over seeds; `random`: fresh weights under the same budget."
    return f"## Fine-tuning\n\n{text}\n\n" + _table(head, rows)


def _batch_sizes(spec: Mapping[str, Any], steps: int) -> str:
    """Return the number of sequences per update, ``64`` or ``64 to 512``, within the first steps of a training."""
    warmup, long = spec.get("batch_warmup") or (), spec.get("long")
    begins = [0, *(phase["until_step"] for phase in warmup)]
    sizes = [*(phase["global_batch_size"] for phase in warmup), spec["global_batch_size"]]
    if long:
        begins.append(long["from_step"])
        sizes.append(long.get("global_batch_size") or spec["global_batch_size"])
    reached = [size for begin, end, size in zip(begins, [*begins[1:], steps], sizes, strict=True) if begin < min(end, steps)]
    return " to ".join(dict.fromkeys(map(_number, (min(reached), max(reached)))))


def _over_seeds(scores: Sequence[float | None]) -> str:
    """Return mean ± standard deviation, or ``undefined`` if a score is."""
    defined = [score for score in scores if score is not None]
    return spread(defined) if len(defined) == len(scores) else "undefined"


def untrained_parts(config: AnyConfig) -> list[str]:
    """Return sentences about parts of an export that pretraining did not train.

    The export stage leaves them out of its card, since that would change the bytes of artifacts that exist.
    """
    if not isinstance(config, ModelConfig) or family_of(config).model_type != "albert":
        return []
    size = config.hidden_size
    if config.embedding_size != size:
        return []
    return [
        "Embeddings are as wide as the layers, and this format projects them all the same: by an identity, which pretraining "
        f"did not have. Other programs train its {size * size + size:,} parameters with the rest; korealbert does not."
    ]


def _limits(facts: ModelFacts, by_stage: _ByStage, more: Sequence[str]) -> str:
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
            f"This export is untied. {config.sharing} cannot be said in this format: "
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
    if by_stage.get("extract"):
        limits.append("The licenses of the corpora above may bind those who redistribute the model.")
    return "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits)


def _origin(by_stage: _ByStage) -> str:
    names = [f"`{artifact.name}`" for stage in by_stage.values() for artifact in stage]
    return "## Origin\n\nBuilt from the artifacts " + ", ".join(names) + "; equal names mean equal recipes."


def _sentence(stats: Statistics, *names: str) -> str:
    """The statistics of these names that are not None: ``rows train 300, rows heldout 10.``"""
    values = {name: getattr(stats, name) for name in names}
    return ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in values.items() if value is not None) + "."


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


_MARKUP = {ord(sign): f"\\{sign}" for sign in "\\[]`"} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def _escaped(text: object) -> str:
    """Text from recipes and corpora on one line, with tags, links and code spans escaped."""
    return _one_line(text).translate(_MARKUP)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _settings(spec: Mapping[str, Any]) -> str:
    # Backticks cannot be escaped inside a code span.
    shown = {name: _one_line(value).replace("`", "'") for name, value in flat(spec).items()}
    return _table(("setting", "value"), [(_escaped(name), f"`{value}`") for name, value in shown.items()])


def _table(head: Sequence[str], rows: Iterable[_Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
