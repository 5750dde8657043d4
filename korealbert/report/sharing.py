"""Selection of the files of an artifact or a directory for the Hugging Face hub, and their upload.

A model is the output of ``export`` with the card that knows its fine-tuning scores; a corpus the documents of ``clean``,
``dedup`` or ``balance`` as Parquet. Licenses follow from the sources, scores are in ``model-index`` too, where the hub's
pages read them. A directory that ``export-corpus`` wrote, or a copy of an export, goes as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import EvalResult, HfApi, ModelCard, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.utils._validators import validate_repo_id

from korealbert.artifact import Artifact, Store
from korealbert.finetune import tasks
from korealbert.finetune.task_types.questions import QuestionAnswering
from korealbert.finetune.task_types.sequence import MultipleChoice, SequenceRegression
from korealbert.finetune.task_types.tagged import Tagging
from korealbert.formatting import mean_and_sd, spread
from korealbert.huggingface.card import license_of
from korealbert.huggingface.dataset import write_dataset
from korealbert.huggingface.directory import POOLING_FILES
from korealbert.huggingface.licenses import OTHER
from korealbert.huggingface.onnx import FILES as ONNX_FILES
from korealbert.pretrain.stage import PretrainStats
from korealbert.report import scores
from korealbert.report.stage import card_with_scores

_CARD = "README.md"
_MODEL = ("config.json", "model.safetensors", "tokenizer.json", _CARD)
"""Files of every exported model."""
_TOKENIZER = ("tokenizer_config.json", "special_tokens_map.json", "spiece.model", "morphemes.json")
_MORE = (*_TOKENIZER, *POOLING_FILES, *ONNX_FILES.values())
_CORPORA = ("clean", "dedup", "balance")
_HUB_TASKS = (
    (QuestionAnswering, "question-answering"),
    (Tagging, "token-classification"),
    (SequenceRegression, "sentence-similarity"),
    (MultipleChoice, "multiple-choice"),
)
"""The hub's names of kinds of benchmarks; all others classify texts."""


@dataclass(frozen=True)
class Parcel:
    """An upload to the hub."""

    kind: Literal["model", "dataset"]
    files: Mapping[str, Path]
    """By path in the repository."""
    card: str
    license: str
    why: str
    """Why the license is ``other``, or nothing."""

    @property
    def measures(self) -> list[str]:
        """The scores of ``model-index`` as people read them."""
        found = _data(self.card).get("eval_results") or [] if self.kind == "model" else []
        return [f"{each.dataset_name}: {each.metric_name} {each.metric_value}" for each in found]


@contextmanager
def parcel(artifacts: Sequence[Artifact], title: str) -> Iterator[Parcel]:
    """The upload of an export, a bi-encoder, or the documents of some artifacts. Raises ValueError for any other stage."""
    stages = {artifact.manifest["recipe"]["stage"] for artifact in artifacts}
    if stages == {"export"}:
        yield _model(artifacts[-1])
        return
    if stages == {"bi_encoder"}:
        yield parcel_of_directory(artifacts[-1].path)
        return
    if not stages <= set(_CORPORA):
        name = f"{artifacts[-1].name} ({artifacts[-1].manifest['label']})"
        raise ValueError(f"{name}: neither a model nor a cleaned corpus; name export, bi_encoder, clean, dedup or balance")
    license, why = license_of(artifacts)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / title
        write_dataset(artifacts, directory, "parquet")
        yield Parcel("dataset", _all_of(directory), (directory / _CARD).read_text("utf-8"), license, why)


def parcel_of_directory(directory: Path) -> Parcel:
    """The upload of a directory that ``export`` or ``export-corpus`` wrote. Raises ValueError for any other one."""
    names = {path.name for path in directory.iterdir()}
    card = (directory / _CARD).read_text("utf-8") if _CARD in names else ""
    if card and set(_MODEL) <= names:
        files = {name: directory / name for name in (*_MODEL, *_MORE) if (directory / name).is_file()}
        return Parcel("model", files, card, str(_data(card).get("license")), "")
    data = list((directory / "data").iterdir()) if (directory / "data").is_dir() else []
    if card and data and {path.suffix for path in data} <= {".parquet", ".jsonl"}:
        return Parcel("dataset", _all_of(directory), card, str(_data(card).get("license")), "")
    raise ValueError(
        f"{directory}: neither an exported model ({', '.join(_MODEL)}) nor a corpus of `korealbert export-corpus` "
        f"({_CARD}, data/*.parquet); name an artifact (export, balance) or such a directory"
    )


def _data(card: str) -> Any:
    """The YAML metadata of a card."""
    return ModelCard(card).data


def _all_of(directory: Path) -> dict[str, Path]:
    """The files of a corpus, and nothing else that may lie there."""
    return {_CARD: directory / _CARD} | {f"data/{path.name}": path for path in sorted((directory / "data").iterdir())}


def _model(export: Artifact) -> Parcel:
    pretrain, store = export.inputs()["pretrain"], Store(export.path.parent)
    benchmarks = scores.read(_cells(export, store), {})
    stated = str(export.manifest["spec"]["license"])
    license, why = (stated, "") if stated != OTHER else license_of([export])
    card = ModelCard(card_with_scores(export, pretrain, benchmarks))
    data: Any = card.data
    data.license = license
    if license != OTHER:
        data.pop("license_name", None)
        data.pop("license_link", None)
    if results := [*_heldout(pretrain), *_finetuned(benchmarks)]:
        data.model_name = str(export.manifest["spec"]["title"])
        data.eval_results = results
    files = {name: export.path / name for name in (*_MODEL, *_MORE) if (export.path / name).is_file()}
    return Parcel("model", files, str(card), license, why)


def _cells(export: Artifact, store: Store) -> dict[str, Artifact]:
    """The fine-tuning cells of an exported model by label: of each benchmark those alone that have the newest cell's settings.

    Cells of one label differ where somebody tried other settings before, and a mean over both is of neither.
    """
    found: dict[str, Artifact] = {}
    settings: dict[str, Any] = {}
    for artifact in reversed(store.artifacts()):
        recipe, label = artifact.manifest["recipe"], str(artifact.manifest["label"])
        if recipe["stage"] != "finetune" or export.name not in recipe["inputs"].values() or label.startswith("search/"):
            continue
        init = recipe["spec"]["init"]
        benchmark = scores.benchmark_of(label, init)
        own = [recipe["version"], {field: value for field, value in recipe["spec"].items() if field not in ("init", "seed")}]
        # What a search chose is an input, and another one for each init.
        if (
            settings.setdefault(benchmark, own) == own
            and settings.setdefault(f"{benchmark}/{init}", recipe["inputs"]) == (recipe["inputs"])
        ):
            found.setdefault(label, artifact)
    return dict(reversed(found.items()))


def _heldout(pretrain: Artifact) -> Iterator[EvalResult]:
    """Scores on the documents that were held out of pretraining; none of a model that finds replaced tokens."""
    found = pretrain.stats_as(PretrainStats).heldout or {}
    where: dict[str, Any] = {
        "task_type": "fill-mask",
        "dataset_type": "heldout",
        "dataset_name": "documents held out of pretraining",
    }
    for metric in ("accuracy", "perplexity"):
        if (value := found.get(f"mlm_{metric}")) is not None:
            yield EvalResult(**where, metric_type=metric, metric_value=round(value, 4), metric_name=f"masked tokens: {metric}")


def _finetuned(benchmarks: Sequence[scores.Benchmark]) -> Iterator[EvalResult]:
    """The mean test score over seeds of each benchmark, from pretrained weights."""
    for benchmark in benchmarks:
        values = benchmark.values("pretrained")
        if not values or benchmark.undefined("pretrained"):
            continue
        name = str(benchmark.cells[0].metrics["task"])
        task = tasks.load(benchmark.cells[0].spec["task"])
        kind = next((hub for of, hub in _HUB_TASKS if isinstance(task, of)), "text-classification")
        seeds = f"mean of {len(values)} seeds: {spread(values)}" if len(values) > 1 else "one seed"
        yield EvalResult(
            task_type=kind,
            dataset_type=name,
            dataset_name=benchmark.title,
            dataset_split="test",
            metric_type=benchmark.metric,
            metric_value=round(mean_and_sd(values)[0], 4),
            metric_name=", ".join(filter(None, (benchmark.metric_title, benchmark.part, seeds))),
        )


def check_name(repo: str) -> None:
    """Raises ValueError for a name of a repository that the hub does not take."""
    try:
        validate_repo_id(repo)
    except ValueError:
        form = "ASCII letters and digits with a single -, _ or . between them, at most 96 characters, no .git at the end"
        raise ValueError(f"{repo!r} is no name on the hub: it is USER/NAME or NAME, of {form}") from None


def upload(what: Parcel, repo: str, *, public: bool) -> str:
    """Upload to a repository, which is made where there is none; the address of the commit.

    Files that the hub has already are not sent again: repeat the call after an interrupted upload. Raises ValueError without a
    token, for a name that the hub does not take, for a public repository unless ``public``, and with the hub's answer.
    """
    check_name(repo)
    if get_token() is None:
        raise ValueError("no token of the hub: run `hf auth login`, or set HF_TOKEN")
    api = HfApi()
    try:
        repo = repo if "/" in repo else f"{api.whoami()['name']}/{repo}"
        found = _visibility(api, what, repo)
        if found == "public" and not public:
            raise ValueError(f"{repo} is there and public; say --public, or name another repository")
        made = api.create_repo(repo, repo_type=what.kind, private=None if found else not public, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as scratch:
            for name, path in what.files.items():
                target = Path(scratch) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path.resolve())
            (Path(scratch) / _CARD).unlink()
            (Path(scratch) / _CARD).write_text(what.card, "utf-8")
            message = "Upload with korealbert"
            done = api.upload_folder(repo_id=made, folder_path=scratch, repo_type=what.kind, commit_message=message)
    except (HfHubHTTPError, OSError) as error:
        answer = " ".join(str(error).split())
        raise ValueError(
            f"{repo}: the hub at {api.endpoint} did not take it ({answer}); mend that and repeat the command"
        ) from None
    return str(done.commit_url)


def _visibility(api: HfApi, what: Parcel, repo: str) -> str:
    """``private`` or ``public``; nothing where there is no such repository yet."""
    try:
        return "private" if api.repo_info(repo, repo_type=what.kind).private else "public"
    except RepositoryNotFoundError:
        return ""


def address(what: Parcel, repo: str) -> str:
    """Address of the repository; ``USER`` in it is whose token it will be."""
    named = repo if "/" in repo else f"USER/{repo}"
    return "/".join([constants.ENDPOINT, *(["datasets"] if what.kind == "dataset" else []), named])


def sizes(what: Parcel) -> Mapping[str, int]:
    """Bytes by path in the repository."""
    own = {_CARD: len(what.card.encode())}
    return {name: own.get(name, path.stat().st_size) for name, path in what.files.items()}
