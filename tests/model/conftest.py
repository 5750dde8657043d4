"""What all tests of models share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_weights_in_any_order() -> None:
    """Weights that a test does not seed itself do not depend on which tests ran before it."""
    torch.manual_seed(0)
