"""Kills at chosen moments, flipped bits, and simultaneous runs: nothing is lost, and nothing wrong is sealed.

    python -m bench.soak_bytes [--kills 200] [--flips 1000] [--partial-flips 500] [--pairs 100] [--seed 1] [--store DIR]

A quarter of the kills come at chosen moments: between a shard and its marker, between the markers and the seal, while a
manifest is written, before the seal, and while a training checkpoint is written. The others come at random. Each killed store
is built to its end and compared with one that was not killed. Flips are of one bit, in any file of a finished artifact
(``verify`` and ``plan`` must both notice) or of a killed attempt (the next attempt must end in the right bytes). Pairs are two
``korealbert run`` on a store that does not exist. An option of 0 leaves its part out.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import korealbert
from bench.common import options
from korealbert.artifact import Artifact, Store, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

RECIPE = Path("tests/recipes/tiny.toml")
DATA, TRAINING = "views", "pretrain"
"""The last stage of a build without training, and of one with it."""
CHOSEN_EVERY = 4
"""One in this many kills comes at a chosen moment."""
TRAINING_EVERY = 5
"""One in this many chosen moments is a moment of training."""
MAX_CHILD_SECONDS = 900

MOMENTS = {
    "between a shard and its marker": ("os.rename", r"/\.done/[^/]*\.json$"),
    "between the markers and the seal": ("open", r"/\.manifest\.json\.[^/]*tmp$"),
    "within a manifest's write": ("half", r"/\.manifest\.json\.[^/]*tmp$"),
    "before the seal": ("os.rename", r"/[a-z]+-[0-9a-f]{16}$"),
    "within a checkpoint's write": ("open", r"/\.checkpoints/step-\d+\.partial/sha256\.json$"),
    "before a checkpoint is in place": ("os.rename", r"/\.checkpoints/step-\d+$"),
}
"""Audit event of Python just before the moment, opening a file or renaming one, and a pattern of the file's path. ``half``: the
file, opened a second time for its fsync, is cut in half, as by a loss of power."""

HOOK = """
import os, re, signal, sys
kind, pattern, left = os.environ["SOAK_KIND"], re.compile(os.environ["SOAK_PATTERN"]), [int(os.environ["SOAK_COUNT"])]
opened = set()

def hook(event, arguments):
    if event != ("open" if kind == "half" else kind):
        return
    path = arguments[1 if event == "os.rename" else 0]
    if not isinstance(path, (str, bytes, os.PathLike)) or not pattern.search(os.fsdecode(path)):
        return
    if kind == "half" and path not in opened:
        opened.add(path)
        return
    left[0] -= 1
    if left[0] == 0:
        if kind == "half":
            os.truncate(path, os.stat(path).st_size // 2)
        with open(os.environ["SOAK_HIT"], "a") as hit:
            hit.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""


def build_until(store: Path, until: str) -> None:
    """Build the recipe up to a stage in this process, without Prefect."""
    korealbert.run(RECIPE, store, until=until, workers=1, threads=1, device="cpu")


def digests(store: Path, until: str) -> dict[str, str]:
    """Return output digest and counts of each stage, by its label."""
    known = Store(store)
    found = {stage.label: known.find(stage.name) for stage in prepare(RECIPE, known, until=until).planned}
    return {label: result_of(each) for label, each in found.items() if each is not None}


def result_of(artifact: Artifact) -> str:
    """Return an artifact's output digest and counts; times and resumed steps differ between runs."""
    names = ("documents_in", "documents_out", "dropped", "quarantined")
    return artifact.output_digest + json.dumps({name: artifact.stats[name] for name in names if name in artifact.stats})


class Kills:
    """Kills builds of a store until it is complete, compares it, and begins another one."""

    def __init__(self, home: Path, lot: random.Random) -> None:
        self.home, self.lot = home, lot
        self.hits: Counter[str] = Counter()
        self.differing: list[str] = []
        self.straight, self.hit = home / "straight", home / "hit"
        self.build_seconds = 30.0
        (home / "hook").mkdir(exist_ok=True)
        (home / "hook" / "sitecustomize.py").write_text(HOOK)

    def run(self, count: int) -> None:
        """Kill ``count`` times, and finish the last stores."""
        chosen = [*MOMENTS][:4], [*MOMENTS][4:]
        for number in range(count):
            moment = None
            until = DATA
            if number % CHOSEN_EVERY == 0:
                nth = number // CHOSEN_EVERY
                training = nth % TRAINING_EVERY == TRAINING_EVERY - 1
                moment, until = chosen[training][nth % len(chosen[training])], TRAINING if training else DATA
            self._kill(until, moment)
        for until in (DATA, TRAINING):
            if (self.home / f"killed-{until}").exists():
                self._finish(until)

    def _kill(self, until: str, moment: str | None) -> None:
        store = self.home / f"killed-{until}"
        while True:
            if not store.exists() and until == TRAINING:
                self._without_training(store)
            self.hit.unlink(missing_ok=True)
            begun = time.monotonic()
            child = self._child(store, until, moment, furthest=3)
            if moment is None:
                try:
                    child.wait(self.lot.uniform(2, self.build_seconds))
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
            code = child.wait(MAX_CHILD_SECONDS)
            if self.hit.exists() or code < 0:
                self.hits[moment or "at random"] += 1
                return
            if code:
                raise SystemExit(f"a build of {store} failed with exit status {code} and was not killed")
            self.build_seconds = 0.9 * self.build_seconds + 0.1 * (time.monotonic() - begun)
            self._compare(until)

    def killed(self, store: Path, until: str, moment: str) -> bool:
        """Build up to a stage and kill at the first such moment; returns whether it came."""
        self.hit.unlink(missing_ok=True)
        self._child(store, until, moment).wait(MAX_CHILD_SECONDS)
        return self.hit.exists()

    def _child(self, store: Path, until: str, moment: str | None, furthest: int = 1) -> subprocess.Popen[bytes]:
        kind, pattern = MOMENTS[moment] if moment else ("none", "x")
        environment = {
            "SOAK_KIND": kind,
            "SOAK_PATTERN": pattern,
            "SOAK_COUNT": str(self.lot.randint(1, furthest)),
            "SOAK_HIT": str(self.hit),
            "PYTHONPATH": os.pathsep.join([str(self.home / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        command = [sys.executable, "-m", "bench.soak_bytes", "--child", str(store), until]
        return subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _without_training(self, store: Path) -> None:
        shutil.copytree(self.straight, store)
        for path in store.glob(f"{TRAINING}-*"):
            shutil.rmtree(path)

    def _finish(self, until: str) -> None:
        child = self._child(self.home / f"killed-{until}", until, None)
        if child.wait(MAX_CHILD_SECONDS):
            raise SystemExit(f"the last build of killed-{until} failed")
        self._compare(until)

    def _compare(self, until: str) -> None:
        store = self.home / f"killed-{until}"
        wanted, found = digests(self.straight, until), digests(store, until)
        self.differing += [label for label in wanted if found.get(label) != wanted[label]]
        shutil.rmtree(store)


def flipped(path: Path, lot: random.Random) -> bytes:
    """Flip one bit of a file; returns its content before."""
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[lot.randrange(len(whole))] ^= 1 << lot.randrange(8)
    path.write_bytes(damaged)
    return whole


def flips_in_artifacts(straight: Path, count: int, lot: random.Random) -> list[str]:
    """Return the files whose flips ``verify`` or ``plan`` did not notice."""
    store, missed = Store(straight), []
    for _ in range(count):
        name = lot.choice(store.directories()).name
        path = lot.choice(sorted(each for each in (straight / name).rglob("*") if each.is_file() and each.stat().st_size))
        whole = flipped(path, lot)
        artifact = Artifact(name, straight / name)
        verified = store.unreadable(artifact) or store.verify(artifact)
        if not verified or store.fault(name, {}) is None:
            missed.append(f"{path.relative_to(straight)} ({'plan' if verified else 'verify'})")
        path.write_bytes(whole)
    return missed


def flips_in_partials(home: Path, count: int, lot: random.Random) -> list[str]:
    """Return the files of killed attempts after whose flips the next attempt ended in other bytes."""
    store, missed, kills = home / "partials", [], Kills(home, lot)
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(kills.straight, store)
    wanted = digests(kills.straight, DATA)
    nodes = prepare(RECIPE, Store(store), until=DATA)
    names = {stage.label: stage.name for stage in nodes.planned}
    runtime = TrainingRuntime(store=store, workers=1, threads=1, device="cpu")
    kept = _partials(kills, store, names)
    for _ in range(count):
        label, partial = lot.choice(kept)
        target = store / names[label]
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(partial, store / f"{target.name}.partial")
        files = [path for path in (store / f"{target.name}.partial").rglob("*") if path.is_file() and path.stat().st_size]
        path = lot.choice(sorted(files))
        flipped(path, lot)
        node = nodes.nodes[label]
        inputs = {role: Artifact(names[other], store / names[other]) for role, other in node.inputs.items()}
        built = build(node.stage, node.spec, inputs, runtime, label=label).artifact
        if result_of(built) != wanted[label]:
            missed.append(str(path.relative_to(store)))
    return missed


def _partials(kills: Kills, store: Path, names: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return label and directory of every data stage as killed before its manifest, and before its seal."""
    kept = []
    for label, name in names.items():
        for moment in ("between the markers and the seal", "before the seal"):
            shutil.rmtree(store / name)
            partial = store / f"{name}.partial"
            if not kills.killed(store, label, moment) or not partial.is_dir():
                raise SystemExit(f"{label} was not killed {moment}")
            place = kills.home / "kept" / f"{name}-{len(kept)}"
            shutil.rmtree(place, ignore_errors=True)
            shutil.move(partial, place)
            kept.append((label, place))
            shutil.copytree(kills.straight / name, store / name)
    return kept


def pairs(home: Path, count: int, lot: random.Random) -> int:
    """Start pairs of runs within a second on a store that does not exist; returns how many pairs both finished."""
    finished = 0
    for number in range(count):
        store = home / f"pair-{number}"
        command = [sys.executable, "-m", "korealbert", "run", str(RECIPE), "--until", "extract/news", "--store", str(store)]
        with tempfile.TemporaryFile() as output:
            both = []
            for _ in range(2):
                both.append(subprocess.Popen(command, stdout=output, stderr=output))
                time.sleep(lot.uniform(0, 1))
            codes = [each.wait(MAX_CHILD_SECONDS) for each in both]
            finished += codes == [0, 0]
            if codes != [0, 0]:
                output.seek(0)
                print(f"pair {number}: exit statuses {codes}\n{output.read()[-2000:].decode(errors='replace')}")
        shutil.rmtree(store, ignore_errors=True)
    return finished


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        build_until(Path(sys.argv[2]), sys.argv[3])
        return 0
    parser = options(__doc__)
    for name, default in (("kills", 200), ("flips", 1000), ("partial-flips", 500), ("pairs", 100), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--store", type=Path, default=Path("store/soak-bytes"))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    lot, home = random.Random(arguments.seed), arguments.store.resolve()  # noqa: S311
    begun, good = time.monotonic(), True

    def show(what: str, found: int, of: int, others: list[str]) -> None:
        nonlocal good
        good &= found == of
        print(f"{what}: {found} of {of}, {time.monotonic() - begun:.0f} s since the start", *others, sep="\n  ", flush=True)

    home.mkdir(parents=True, exist_ok=True)
    build_until(home / "straight", TRAINING if arguments.kills else DATA)
    if arguments.flips:
        missed = flips_in_artifacts(home / "straight", arguments.flips, lot)
        show("flips in artifacts found", arguments.flips - len(missed), arguments.flips, missed)
    if arguments.partial_flips:
        missed = flips_in_partials(home, arguments.partial_flips, lot)
        show("flips in killed tries mended", arguments.partial_flips - len(missed), arguments.partial_flips, missed)
    if arguments.kills:
        kills = Kills(home, lot)
        kills.run(arguments.kills)
        differing = [f"differs: {label}" for label in kills.differing]
        hits = [f"{number} × {moment}" for moment, number in kills.hits.most_common()]
        show("kills that left equal digests", kills.hits.total() if not differing else 0, arguments.kills, hits + differing)
    if arguments.pairs:
        show("pairs of which both runs finished", pairs(home, arguments.pairs, lot), arguments.pairs, [])
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
