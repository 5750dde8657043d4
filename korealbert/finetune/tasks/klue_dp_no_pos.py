"""KLUE-DP without gold parts of speech: what an encoder parses when nobody tells it the tags, which raw text does not have.

Files and metrics of ``klue_dp``; KLUE-baseline's option ``--no_pos``.
"""

from __future__ import annotations

from korealbert.finetune.tasks.klue_dp import KlueDp


class KlueDpNoPos(KlueDp):
    """Dependency parsing of KLUE from words alone."""

    title = "KLUE-DP no POS"
    uses_pos = False


TASK = KlueDpNoPos()
