"""Select the files of an artifact or directory for the Hugging Face hub, and upload them.

A model is the output of ``export``, with its fine-tuning scores on the card and in ``model-index``, which the hub's pages show.
A corpus is the documents of ``clean``, ``dedup`` or ``balance`` as Parquet. Licenses follow from the sources. A directory that
``export-corpus`` wrote, or a copy of an export, is uploaded unchanged.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

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
from korealbert.pretrain.stage import Reached
from korealbert.report import scores
from korealbert.report.stage import card_with_scores

_CARD = "README.md"
_MODEL = ("config.json", "model.safetensors", "tokenizer.json", _CARD)
"""Files of every exported model."""
_TOKENIZER = ("tokenizer_config.json", "special_tokens_map.json", "spiece.model", "morphemes.json")
_OPTIONAL = (*_TOKENIZER, *POOLING_FILES, *ONNX_FILES.values())
_CORPORA = ("clean", "dedup", "balance")
_HUB_TASKS = (
    (QuestionAnswering, "question-answering"),
    (Tagging, "token-classification"),
    (SequenceRegression, "sentence-similarity"),
    (MultipleChoice, "multiple-choice"),
)
"""The hub's names for kinds of benchmarks; all others are text classification."""


@dataclass(frozen=True)
class HubUpload:
    """An upload to the hub."""

    kind: Literal["model", "dataset"]
    files: Mapping[str, Path]
    """Local files by path in the repository."""
    card: str
    license: str
    why: str
    """Reason why the license is ``other``, or ""."""

    @property
    def measures(self) -> list[str]:
        """Scores of ``model-index`` for people."""
        found = _data(self.card).get("eval_results") or [] if self.kind == "model" else []
        return [f"{each.dataset_name}: {each.metric_name} {each.metric_value}" for each in found]


@contextmanager
def prepare_upload(artifacts: Sequence[Artifact], title: str) -> Iterator[HubUpload]:
    """Prepare the upload of an export, a bi-encoder, or a corpus. Raises ValueError for artifacts of other stages."""
    stages = {artifact.manifest["recipe"]["stage"] for artifact in artifacts}
    if stages == {"export"}:
        yield _model(artifacts[-1])
        return
    if stages == {"bi_encoder"}:
        yield prepare_directory(artifacts[-1].path)
        return
    if not stages <= set(_CORPORA):
        name = f"{artifacts[-1].name} ({artifacts[-1].manifest['label']})"
        raise ValueError(f"{name}: neither a model nor a cleaned corpus; name export, bi_encoder, clean, dedup or balance")
    license, why = license_of(artifacts)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / title
        write_dataset(artifacts, directory, "parquet")
        yield HubUpload("dataset", _corpus_files(directory), (directory / _CARD).read_text("utf-8"), license, why)


def prepare_directory(directory: Path) -> HubUpload:
    """Prepare the upload of a directory that ``export`` or ``export-corpus`` wrote. Raises ValueError for any other one."""
    names = {path.name for path in directory.iterdir()}
    try:
        card = (directory / _CARD).read_text("utf-8") if _CARD in names else ""
    except UnicodeDecodeError as error:
        raise ValueError(f"{directory / _CARD}: byte {error.start} is not UTF-8; save the card as UTF-8") from None
    if card and set(_MODEL) <= names:
        return HubUpload("model", _model_files(directory), card, _license(directory / _CARD, card), "")
    data = list((directory / "data").iterdir()) if (directory / "data").is_dir() else []
    if card and data and {path.suffix for path in data} <= {".parquet", ".jsonl"}:
        return HubUpload("dataset", _corpus_files(directory), card, _license(directory / _CARD, card), "")
    raise ValueError(
        f"{directory}: neither an exported model ({', '.join(_MODEL)}) nor a corpus of `korealbert export-corpus` "
        f"({_CARD}, data/*.parquet); name an artifact (export, balance) or such a directory"
    )


def _data(card: str) -> Any:
    """The YAML metadata of a card."""
    return ModelCard(card).data


def _license(path: Path, card: str) -> str:
    """Return the license in a card's metadata. Raises ValueError if the metadata cannot be read, or has no license."""
    try:
        stated = _data(card).get("license")
    except Exception as error:  # The YAML parser raises errors of its own, the hub's client TypeError, ValueError and KeyError.
        fault = " ".join(str(error).split())
        raise ValueError(f"{path}: no metadata that can be read ({fault}); correct the YAML between its lines ---") from None
    if stated is None:
        raise ValueError(f"{path}, field 'license': missing; state the license in YAML between lines --- at its beginning")
    return str(stated)


def _corpus_files(directory: Path) -> dict[str, Path]:
    """Return the card and the data files of a corpus, without other files in the directory."""
    return {_CARD: directory / _CARD} | {f"data/{path.name}": path for path in sorted((directory / "data").iterdir())}


def _model_files(directory: Path) -> dict[str, Path]:
    return {name: directory / name for name in (*_MODEL, *_OPTIONAL) if (directory / name).is_file()}


def _model(export: Artifact) -> HubUpload:
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
    if results := [*_heldout(Reached.of(pretrain, export.manifest["spec"].get("snapshot"))), *_finetuned(benchmarks)]:
        data.model_name = str(export.manifest["spec"]["title"])
        data.eval_results = results
    return HubUpload("model", _model_files(export.path), str(card), license, why)


def _cells(export: Artifact, store: Store) -> dict[str, Artifact]:
    """Return the fine-tuning cells of an exported model, only those with the settings of the benchmark's newest cell.

    A store may have cells from earlier settings under the same labels, and a mean over both would be wrong. Labels are
    ``finetune/BENCHMARK/INIT/SEED``: those of grids lose their row and the seed of pretraining, which the export has too.
    """
    found: dict[str, Artifact] = {}
    settings: dict[str, Any] = {}
    for artifact in reversed(store.artifacts()):
        recipe, label = artifact.manifest["recipe"], str(artifact.manifest["label"])
        if recipe["stage"] != "finetune" or export.name not in recipe["inputs"].values() or label.startswith("search/"):
            continue
        init = recipe["spec"]["init"]
        benchmark, _, seed = label.split("/")[-3:]
        own = [recipe["version"], {field: value for field, value in recipe["spec"].items() if field not in ("init", "seed")}]
        same_settings = settings.setdefault(benchmark, own) == own
        # The result of a search is an input, and there is one for each init.
        if same_settings and settings.setdefault(f"{benchmark}/{init}", recipe["inputs"]) == recipe["inputs"]:
            found.setdefault(f"finetune/{benchmark}/{init}/{seed}", artifact)
    return dict(reversed(found.items()))


def _heldout(reached: Reached) -> Iterator[EvalResult]:
    """Yield scores on documents held out of pretraining; a model that finds replaced tokens has none."""
    found = reached.heldout or {}
    where: dict[str, Any] = {
        "task_type": "fill-mask",
        "dataset_type": "heldout",
        "dataset_name": "documents held out of pretraining",
    }
    for metric in ("accuracy", "perplexity"):
        if (value := found.get(f"mlm_{metric}")) is not None:
            yield EvalResult(**where, metric_type=metric, metric_value=round(value, 4), metric_name=f"masked tokens: {metric}")


def _finetuned(benchmarks: Sequence[scores.Benchmark]) -> Iterator[EvalResult]:
    """Yield the mean test score of each benchmark over the seeds of pretrained weights."""
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
    """Raise ValueError if the hub does not accept the name of a repository."""
    try:
        validate_repo_id(repo)
    except ValueError:
        form = "ASCII letters and digits with a single -, _ or . between them, at most 96 characters, no .git at the end"
        raise ValueError(f"{repo!r} is not a valid name on the hub: write USER/NAME or NAME with {form}") from None


_FAILURES = cast(tuple[type[Exception], ...], (*HfHubHTTPError.__bases__, OSError))
"""Errors of the library that the hub's client speaks HTTP with, which depends on its version: no answer, a refusal."""


_LOADING = re.compile(r'((?:from_pretrained|load_dataset)\()"path/to/this/directory"')
"""Calls in cards that load a directory; on the hub they load the repository."""


def upload(what: HubUpload, repo: str, *, public: bool) -> str:
    """Upload to a repository, which is created if necessary, and return the address of the commit.

    Files that the hub already has are not sent again, so repeat the call after an interrupted upload. Raises ValueError without
    a token, for an invalid name, for a public repository unless ``public``, and with the hub's answer if the upload fails.
    """
    check_name(repo)
    if get_token() is None:
        raise ValueError("no token for the hub: run `hf auth login`, or set HF_TOKEN")
    api = HfApi()
    try:
        repo = repo if "/" in repo else f"{api.whoami()['name']}/{repo}"
        found = _visibility(api, what, repo)
        if found == "public" and not public:
            raise ValueError(f"{repo} is a public repository; add --public, or name another one")
        made = api.create_repo(repo, repo_type=what.kind, private=None if found else not public, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as scratch:
            for name, path in what.files.items():
                target = Path(scratch) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path.resolve())
            (Path(scratch) / _CARD).unlink()
            (Path(scratch) / _CARD).write_text(_LOADING.sub(lambda call: f'{call[1]}"{made}"', what.card), "utf-8")
            message = "Upload with korealbert"
            done = api.upload_folder(repo_id=made, folder_path=scratch, repo_type=what.kind, commit_message=message)
    except _FAILURES as error:
        answer = " ".join(str(error).split())
        raise ValueError(
            f"{repo}: the upload to {api.endpoint} failed ({answer}); fix the problem and repeat the command"
        ) from None
    return str(done.commit_url)


def _visibility(api: HfApi, what: HubUpload, repo: str) -> str:
    """Return ``private`` or ``public``, or "" if there is no such repository yet."""
    try:
        return "private" if api.repo_info(repo, repo_type=what.kind).private else "public"
    except RepositoryNotFoundError:
        return ""


def address(what: HubUpload, repo: str) -> str:
    """Return the address of the repository; ``USER`` in it stands for the owner of the token."""
    named = repo if "/" in repo else f"USER/{repo}"
    return "/".join([constants.ENDPOINT, *(["datasets"] if what.kind == "dataset" else []), named])


def sizes(what: HubUpload) -> Mapping[str, int]:
    """Return the size in bytes of each file by path in the repository."""
    own = {_CARD: len(what.card.encode())}
    return {name: own.get(name, path.stat().st_size) for name, path in what.files.items()}
