"""The gate: stages alone, cells by number and by memory, nobody passed by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from flows.step import Gate
from korealbert.pretrain.runtime import TrainingRuntime

GIB = 1 << 30
SECONDS_TO_WAIT = 60


class Watch:
    """Counts who is inside. Nobody leaves before ``enough`` are inside at once, or ``may_leave`` is set."""

    def __init__(self, gate: Gate, enough: int | None = None) -> None:
        self.gate, self.inside, self.order = gate, dict[str, int](), list[str]()
        self.enough, self.may_leave, self.begun = enough, threading.Event(), 0
        self.most = 0
        self.most_memory = 0
        self.clashes = 0
        self._lock = threading.Lock()

    def run(self, name: str, need: int | None, alone: bool = False) -> threading.Thread:
        def work() -> None:
            with self.gate.alone() if alone else self.gate.cell(need):
                with self._lock:
                    self.order.append(name)
                    self.inside[name] = need or 0
                    self.most = max(self.most, len(self.inside))
                    self.most_memory = max(self.most_memory, sum(self.inside.values()))
                    self.clashes += alone and len(self.inside) > 1
                    if len(self.inside) == self.enough:
                        self.may_leave.set()
                self.may_leave.wait(SECONDS_TO_WAIT)
                time.sleep(0.03)  # Time for one too many.
                with self._lock:
                    del self.inside[name]

        thread = threading.Thread(target=work)
        thread.start()
        self.begun += 1
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while len(self.order) + len(self.gate._waiting) < self.begun:  # It has not come to the gate.
            assert time.monotonic() < deadline, (name, self.order)
            time.sleep(0.001)
        return thread


@pytest.mark.parametrize(
    ("runtime", "needs", "most"),
    [
        (TrainingRuntime(threads=4), [None] * 4, 1),
        (TrainingRuntime(threads=4, cells=2), [None] * 6, 2),
        (TrainingRuntime(threads=9, cells=3, memory_gib=10), [GIB] * 9, 3),
        (TrainingRuntime(threads=8, memory_gib=5), [2 * GIB] * 6, 2),
        (TrainingRuntime(threads=8, memory_gib=5), [None] * 4, 1),
    ],
)
def test_as_many_as_number_and_memory_allow(runtime: TrainingRuntime, needs: list[int | None], most: int) -> None:
    watch = Watch(Gate(runtime), enough=most)
    for thread in [watch.run(str(n), need) for n, need in enumerate(needs)]:
        thread.join()
    assert watch.most == most
    assert watch.most_memory <= (runtime.memory_bytes or GIB)


def test_a_whole_stage_runs_alone_and_is_passed_by_nobody() -> None:
    watch = Watch(Gate(TrainingRuntime(threads=4, cells=4)))
    threads = [watch.run(name, None, alone=name.isupper()) for name in ("a", "b", "C", "d", "e", "F", "g")]
    watch.may_leave.set()
    for thread in threads:
        thread.join()
    assert watch.clashes == 0
    order: Callable[[str], int] = watch.order.index
    assert max(order("a"), order("b")) < order("C") < min(order("d"), order("e"))
    assert max(order("d"), order("e")) < order("F") < order("g")


def test_an_error_inside_frees_the_place() -> None:
    gate = Gate(TrainingRuntime(threads=2, memory_gib=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"), gate.cell(GIB // 2):
            raise ValueError("no")
    with gate.alone():
        pass
