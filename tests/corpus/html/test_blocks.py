"""Blocks of text beside the paragraphs of a page, and formulas in them."""

from __future__ import annotations

import pytest

from tests.corpus.html.test_pages import BODY, read

SENTENCE = (
    "두루미는 해마다 가을에 왔다가 이듬해 봄이 되면 북쪽으로 떠난다고 마을 사람들은 오래전부터 입을 모아 말해 왔다고 했다."
)


@pytest.mark.parametrize("block", ["div", "section", "center", "div align='center'", "div><span"])
def test_blocks_of_text_beside_paragraphs_stay(block: str) -> None:
    before, after = f"앞 글이다. {SENTENCE}", f"뒤 글이다. {SENTENCE}"
    body = f"<p>{before}</p><{block}>{SENTENCE}</div></section></center><p>{after}</p>"
    assert read(body=body).text.split("\n\n") == [before, SENTENCE, after]


def test_the_first_line_of_a_block_with_line_breaks_stays() -> None:
    before, after = f"앞 글이다. {SENTENCE}", f"뒤 글이다. {SENTENCE}"
    lines = ["강가에 바람이 불고", "두루미는 서 있네", "해는 지고"]
    body = f"<p>{before}</p><div>{'<br>'.join(lines)}</div><p>{after}</p>"
    assert read(body=body).text.split("\n\n") == [before, *lines, after]


def test_a_block_of_links_beside_paragraphs_is_no_paragraph() -> None:
    body = f"<p>{BODY[0]}</p><div><a href='/'>많이 본 뉴스</a></div><p>{BODY[1]}</p>"
    assert read(body=body).text.split("\n\n") == BODY[:2]


@pytest.mark.parametrize(
    ("mathml", "shown"),
    [
        ("<msup><mi>a</mi><mn>2</mn></msup>", "a^2"),
        (
            "<mfrac><mn>1</mn><mrow><mn>1</mn><mo>+</mo><mfrac><mn>1</mn><mi>x</mi></mfrac></mrow></mfrac>",
            "1/(1+1/x)",
        ),
        (
            "<msub><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msub><msqrt><mn>2</mn></msqrt>",
            "x_(n+1)√(2)",
        ),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", "∛(x)"),
    ],
)
def test_formulas_keep_their_order_of_operations(mathml: str, shown: str) -> None:
    body = f"<p>{BODY[0]}</p><p>값은 <math>{mathml}</math>이다.</p><p>{BODY[1]}</p>"
    assert read(body=body).text.split("\n\n")[1] == f"값은 {shown}이다."
