"""The gate: whole stages alone, cells by number and memory, and no overtaking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from korealbert.flows.step import Gate
from korealbert.pretrain.runtime import TrainingRuntime, pick_device

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
                time.sleep(0.03)  # Time for one too many to enter.
                with self._lock:
                    del self.inside[name]

        thread = threading.Thread(target=work)
        thread.start()
        self.begun += 1
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while len(self.order) + len(self.gate._waiting) < self.begun:  # It has not reached the gate.
            assert time.monotonic() < deadline, (name, self.order)
            time.sleep(0.001)
        return thread


@pytest.mark.parametrize(
    ("runtime", "needs", "most"),
    [
        (TrainingRuntime(threads=4, device="cpu"), [None] * 4, 1),
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


def test_cells_take_the_lowest_free_number_and_with_it_a_gpu() -> None:
    runtime = TrainingRuntime(threads=4, cells=3)
    gate = Gate(runtime)
    with gate.cell(None) as first:
        with gate.cell(None) as second, gate.cell(None) as third:
            assert (first, second, third) == (0, 1, 2)
        with gate.cell(None) as again:
            assert again == 1
    with gate.alone():
        pass
    with Gate(TrainingRuntime(threads=4, memory_gib=1)).cell(None) as alone:
        assert alone == 0
    assert [runtime.of_a_cell(seat).gpu for seat in (0, 1, 2)] == [0, 1, 2]


def test_a_machine_runs_a_cell_on_each_of_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.pretrain.runtime.gpus", lambda device: 0 if device == "cpu" else 8)
    assert TrainingRuntime(threads=16).cells_at_once == 8
    assert TrainingRuntime(threads=16, device="cpu").cells_at_once == 1
    assert TrainingRuntime(threads=16, cells=3).cells_at_once == 3
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    assert [pick_device("auto", local_rank=gpu).index for gpu in (0, 7, 9)] == [0, 7, 1]
