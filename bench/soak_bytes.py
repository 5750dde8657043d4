"""Kills at chosen moments, flipped bits, and runs started together: nothing vanishes, and nothing wrong is sealed.

    python -m bench.soak_bytes [--kills 200] [--flips 1000] [--partial-flips 500] [--pairs 100] [--seed 1] [--store DIR]

A quarter of the kills come at chosen moments: between a shard and its marker, between the markers and the seal, within the
write of a manifest, before the seal, and within the write of a training checkpoint. The others come at random. Each killed
store is built to its end and compared with one that nobody killed. Flips are of one bit, in any file of a finished artifact
(``verify`` and ``plan`` must both see it) or of a killed try (the next try must end in the right bytes). Pairs are two
``korealbert run`` on a store that does not exist. An option of 0 leaves its part out.
"""

from __future__ import annotations

import argparse
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

from korealbert.artifact import Artifact, Store, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

RECIPE = Path("tests/recipes/tiny.toml")
DATA, TRAINING = "views", "pretrain"
CHOSEN_SHARE = 4
CHECKPOINT_SHARE = 5
SECONDS = 900
"""Within which any child must end."""

MOMENTS = {
    "between a shard and its marker": ("os.rename", r"/\.done/[^/]*\.json$"),
    "between the markers and the seal": ("open", r"/\.manifest\.json\.[^/]*tmp$"),
    "within a manifest's write": ("half", r"/\.manifest\.json\.[^/]*tmp$"),
    "before the seal": ("os.rename", r"/[a-z]+-[0-9a-f]{16}$"),
    "within a checkpoint's write": ("open", r"/\.checkpoints/step-\d+\.partial/sha256\.json$"),
    "before a checkpoint is in place": ("os.rename", r"/\.checkpoints/step-\d+$"),
}
"""What Python audits just before it happens: opening a file, or renaming one to a path. ``half``: the file that is opened again
to be fsynced is cut in half, as a loss of power would."""

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
        with open(os.environ["SOAK_SAID"], "a") as said:
            said.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""


def build_all(store: Path, until: str) -> None:
    """The recipe up to a stage, in this process, without Prefect."""
    built: dict[str, Artifact] = {}
    runtime = TrainingRuntime(store=store, workers=1, threads=1, device="cpu")
    for label, node in prepare(RECIPE, Store(store), until=until).nodes.items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact


def digests(store: Path, until: str) -> dict[str, str]:
    """Digest of output and statistics by label."""
    known = Store(store)
    found = {stage.label: known.find(stage.name) for stage in prepare(RECIPE, known, until=until).planned}
    return {label: each.output_digest + counted(each) for label, each in found.items() if each is not None}


def counted(artifact: Artifact) -> str:
    """What a stage counted, as text; not how fast, or after how many steps it was resumed."""
    stats = artifact.stats
    return json.dumps(
        {name: stats[name] for name in ("documents_in", "documents_out", "dropped", "quarantined") if name in stats}
    )


class Kills:
    """One store that is killed and built again, until it is whole; then another."""

    def __init__(self, home: Path, lot: random.Random) -> None:
        self.home, self.lot = home, lot
        self.hits: Counter[str] = Counter()
        self.differing: list[str] = []
        self.straight, self.said = home / "straight", home / "said"
        self.life_seconds = 30.0
        (home / "hook").mkdir(exist_ok=True)
        (home / "hook" / "sitecustomize.py").write_text(HOOK)

    def run(self, count: int) -> None:
        """All kills, the last store finished after them."""
        chosen = [*MOMENTS][:4], [*MOMENTS][4:]
        for number in range(count):
            moment = None
            until = DATA
            if number % CHOSEN_SHARE == 0:
                nth = number // CHOSEN_SHARE
                training = nth % CHECKPOINT_SHARE == CHECKPOINT_SHARE - 1
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
            self.said.unlink(missing_ok=True)
            begun = time.monotonic()
            child = self._child(store, until, moment, furthest=3)
            if moment is None:
                try:
                    child.wait(self.lot.uniform(2, self.life_seconds))
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
            code = child.wait(SECONDS)
            if self.said.exists() or code < 0:
                self.hits[moment or "at random"] += 1
                return
            if code:
                raise SystemExit(f"a build of {store} failed with exit status {code} and was not killed")
            self.life_seconds = 0.9 * self.life_seconds + 0.1 * (time.monotonic() - begun)
            self._compare(until)

    def killed(self, store: Path, until: str, moment: str) -> bool:
        """Build up to a stage, and kill at the first such moment; whether it came."""
        self.said.unlink(missing_ok=True)
        self._child(store, until, moment).wait(SECONDS)
        return self.said.exists()

    def _child(self, store: Path, until: str, moment: str | None, furthest: int = 1) -> subprocess.Popen[bytes]:
        kind, pattern = MOMENTS[moment] if moment else ("none", "x")
        environment = {
            "SOAK_KIND": kind,
            "SOAK_PATTERN": pattern,
            "SOAK_COUNT": str(self.lot.randint(1, furthest)),
            "SOAK_SAID": str(self.said),
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
        if child.wait(SECONDS):
            raise SystemExit(f"the last build of killed-{until} failed")
        self._compare(until)

    def _compare(self, until: str) -> None:
        store = self.home / f"killed-{until}"
        wanted, found = digests(self.straight, until), digests(store, until)
        self.differing += [label for label in wanted if found.get(label) != wanted[label]]
        shutil.rmtree(store)


def flipped(path: Path, lot: random.Random) -> bytes:
    """Flip one bit of a file; its content before."""
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[lot.randrange(len(whole))] ^= 1 << lot.randrange(8)
    path.write_bytes(damaged)
    return whole


def flips_in_artifacts(straight: Path, count: int, lot: random.Random) -> list[str]:
    """Files whose flips ``verify`` or ``plan`` did not see."""
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
    """Files of killed tries after whose flips the next try ended in other bytes."""
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
        if built.output_digest + counted(built) != wanted[label]:
            missed.append(str(path.relative_to(store)))
    return missed


def _partials(kills: Kills, store: Path, names: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Every data stage as two kills leave it: before its manifest, and before its seal."""
    kept = []
    for label, name in names.items():
        for moment in ("between the markers and the seal", "before the seal"):
            shutil.rmtree(store / name)
            kind, pattern = MOMENTS[moment]
            said = kills.home / "said"
            said.unlink(missing_ok=True)
            environment = {"SOAK_KIND": kind, "SOAK_PATTERN": pattern, "SOAK_COUNT": "1", "SOAK_SAID": str(said)}
            search = os.pathsep.join([str(kills.home / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])])
            command = [sys.executable, "-m", "bench.soak_bytes", "--child", str(store), label]
            subprocess.run(
                command, env={**os.environ, **environment, "PYTHONPATH": search}, stderr=subprocess.DEVNULL, check=False
            )
            partial = store / f"{name}.partial"
            if not said.exists() or not partial.is_dir():
                raise SystemExit(f"{label} was not killed {moment}")
            place = kills.home / "kept" / f"{name}-{len(kept)}"
            shutil.rmtree(place, ignore_errors=True)
            shutil.move(partial, place)
            kept.append((label, place))
            shutil.copytree(kills.straight / name, store / name)
    return kept


def pairs(home: Path, count: int, lot: random.Random) -> int:
    """Pairs of runs, started within a second on a store that is not there, of which both finished."""
    finished = 0
    for number in range(count):
        store = home / f"pair-{number}"
        command = [sys.executable, "-m", "korealbert", "run", str(RECIPE), "--until", "extract/news", "--store", str(store)]
        with tempfile.TemporaryFile() as told:
            both = []
            for _ in range(2):
                both.append(subprocess.Popen(command, stdout=told, stderr=told))
                time.sleep(lot.uniform(0, 1))
            codes = [each.wait(SECONDS) for each in both]
            finished += codes == [0, 0]
            if codes != [0, 0]:
                told.seek(0)
                print(f"pair {number}: exit statuses {codes}\n{told.read()[-2000:].decode(errors='replace')}")
        shutil.rmtree(store, ignore_errors=True)
    return finished


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        build_all(Path(sys.argv[2]), sys.argv[3])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kills", 200), ("flips", 1000), ("partial-flips", 500), ("pairs", 100), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--store", type=Path, default=Path("store/soak-bytes"))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    lot, home = random.Random(arguments.seed), arguments.store.resolve()  # noqa: S311
    begun, good = time.monotonic(), True

    def tell(what: str, found: int, of: int, others: list[str]) -> None:
        nonlocal good
        good &= found == of
        print(f"{what}: {found} of {of}, {time.monotonic() - begun:.0f} s since the start", *others, sep="\n  ", flush=True)

    home.mkdir(parents=True, exist_ok=True)
    build_all(home / "straight", TRAINING if arguments.kills else DATA)
    if arguments.flips:
        missed = flips_in_artifacts(home / "straight", arguments.flips, lot)
        tell("flips in artifacts found", arguments.flips - len(missed), arguments.flips, missed)
    if arguments.partial_flips:
        missed = flips_in_partials(home, arguments.partial_flips, lot)
        tell("flips in killed tries mended", arguments.partial_flips - len(missed), arguments.partial_flips, missed)
    if arguments.kills:
        kills = Kills(home, lot)
        kills.run(arguments.kills)
        differing = [f"differs: {label}" for label in kills.differing]
        told = [f"{number} × {moment}" for moment, number in kills.hits.most_common()]
        tell("kills that left equal digests", kills.hits.total() if not differing else 0, arguments.kills, told + differing)
    if arguments.pairs:
        tell("pairs of which both runs finished", pairs(home, arguments.pairs, lot), arguments.pairs, [])
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
