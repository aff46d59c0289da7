"""Where chains run, whatever the machine."""

import numpy as np
import pytest

from vbsvm.inference import chains


@pytest.fixture
def alone(monkeypatch):
    """All in this process."""
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", np.inf)


@pytest.fixture
def helped(monkeypatch):
    """Two processes, from the second round on."""
    monkeypatch.setattr(chains, "WORTH_A_PROCESS", 0.0)
    monkeypatch.setattr(chains, "cpu_count", lambda: 2)
