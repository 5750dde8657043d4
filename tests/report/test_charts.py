"""Scales, ticks and thinning."""

from __future__ import annotations

import math
import re
from importlib import resources

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from korealbert.report.render import charts, graph


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 6))
def test_ticks_are_round_few_and_enclose_the_values(low: float, span: float, about: int) -> None:
    assume(span >= abs(low) * 1e-6)  # Closer values differ only in their last digits.
    found = charts.ticks(low, low + span, about)
    step = found[1] - found[0]
    assert found[0] <= low + step * 1e-6
    assert found[-1] >= low + span - step * 1e-6
    assert 2 <= len(found) <= about + 3
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-6)
    assert min(abs(mantissa - round_one) for round_one in (1, 2, 2.5, 5)) < 1e-3


def test_a_constant_series_still_has_an_axis() -> None:
    assert charts.ticks(3.0, 3.0, 5)[0] <= 3.0 <= charts.ticks(3.0, 3.0, 5)[-1]
    assert len(charts.ticks(0.0, 0.0, 5)) >= 2
    charts.lines([charts.Line("a", [(0, 2.0), (1, 2.0)])], label="a", x_unit="steps")
    charts.lines([charts.Line("a", []), charts.Line("b", [(0.0, 0.0)])], label="a", x_unit="steps")
    charts.bars([], label="nothing")
    charts.histogram([], label="nothing", unit="")


def _luminance(colour: list[float]) -> float:
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_numbers_can_be_read_on_every_cell_of_a_matrix() -> None:
    svg = charts.matrix(["0", "1"], [[0, 200], [60, 140]], label="all").standalone()
    darkest = max(map(float, re.findall(r'fill-opacity="([\d.]+)"', svg)))
    assert re.findall(r"<text ([^>]*)>(?:100|30|70)<", svg) and not re.findall(r"<text [^>]*class=[^>]*>(?:100|30|70)<", svg)
    for mode in resources.files("korealbert.report.render").joinpath("templates/palette.css").read_text().split("@media"):
        hexes = dict(re.findall(r"--(\w+):#(\w{6})", mode))
        mark, track, ink = ([int(hexes[n][i : i + 2], 16) / 255 for i in (0, 2, 4)] for n in ("one", "raised", "ink"))
        cell = [darkest * a + (1 - darkest) * b for a, b in zip(mark, track, strict=True)]
        low, high = sorted(map(_luminance, (cell, ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5


@settings(max_examples=40)
@given(st.lists(st.sets(st.integers(0, 11), max_size=5), min_size=1, max_size=12))
def test_a_graph_loses_only_arrows_that_a_longer_path_implies(found: list[set[int]]) -> None:
    above = {str(node): {str(each) for each in parents if each < node} for node, parents in enumerate(found)}

    def before(arrows: dict[str, set[str]], node: str) -> set[str]:
        return set().union(*({parent} | before(arrows, parent) for parent in arrows[node]))

    fewest = graph.reduced(above)
    for node, parents in fewest.items():
        assert before(fewest, node) == before(above, node)
        for parent in parents:
            assert not any(parent in before(above, other) for other in parents - {parent})
    drawn = graph.layered([graph.Box(node, ["name"], link="#a") for node in above], above, label="a graph").standalone("Title")
    assert drawn.count('class="edge"') == sum(map(len, fewest.values()))
    assert max(float(x) for x in re.findall(r'class="box" x="([\d.]+)"', drawn)) < 1_000
    heights = {name: float(y) for y, name in re.findall(r'y="([\d.]+)" class="value">(\d+)<', drawn)}
    assert all(heights[parent] < heights[node] for node, parents in above.items() for parent in parents)


def test_a_long_label_is_not_cut_and_makes_only_its_layer_higher() -> None:
    long = "finetune/some-encoder/korsts/pretrained/1"
    drawn = graph.layered([graph.Box("dedup", ["name"]), graph.Box(long, ["name"])], {long: {"dedup"}}, label="a graph").body
    assert "".join(re.findall(r'class="value">([^<]+)<', drawn)) == "dedup" + long
    low, high = (float(height) for height in re.findall(r'class="box"[^>]* height="([\d.]+)"', drawn))
    assert low < high


def test_coinciding_curves_have_dashes_and_points_of_their_own_and_no_half_epochs() -> None:
    same = [(1.0, 50.0), (2.0, 50.0)]
    drawn = charts.lines([charts.Line("a", same, 1), charts.Line("b", same, 2)], label="two", x_unit="epochs").body
    assert drawn.index('class="line-1" d=') < drawn.index('class="line-2" d='), "the dashed one is drawn on top"
    assert len(set(re.findall(r' r="([\d.]+)"', drawn))) == 2
    ticks = re.findall(r'class="tick" text-anchor="(?:middle|end)">([\d.]+)<', drawn)
    assert {"0", "1", "2"} <= {*ticks} and not {"0.5", "1.5"} & {*ticks}


def test_long_curves_are_thinned_to_means_and_keep_their_end() -> None:
    points = [(float(step), 7.0) for step in range(5001)]
    thin = charts.thinned(points)
    assert len(thin) <= charts.MAX_POINTS + 2
    assert {y for _, y in thin} == {7.0}
    assert thin[-1] == points[-1]
    assert [x for x, _ in thin] == sorted(x for x, _ in thin)
    assert charts.thinned(points[:9]) == points[:9]


def test_labels_of_rows_break_into_lines_instead_of_being_cut() -> None:
    name = "encoder/monologg-koelectra-base-v3-discriminator, ELECTRA's head, 3 seeds"
    for draw in (
        lambda label: charts.strips([charts.Strip(label, [(1.0, "")], "84.10 ± 0.20")] * 2, label="", x_unit=""),
        lambda label: charts.bars([charts.Bar(label, 1.0, "84.10 ± 0.20")] * 2, label=""),
    ):
        long, short = draw(name), draw("pretrained, 3 seeds")
        assert "…" not in long.body and "3 seeds</text>" in long.body
        assert long.height > short.height


def test_labels_of_columns_that_are_wider_than_their_columns_are_whole_on_two_lines() -> None:
    labels = ["IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치"]
    found = charts.matrix(labels, [[1] * 7] * 7, label="")
    ticks = re.findall(r'y="([\d.]+)" class="tick"[^>]*>([^<]*)<', found.body)
    assert [name for _, name in ticks] == labels and len({y for y, _ in ticks}) == 2
    assert max(float(y) for y, _ in ticks) < found.height
