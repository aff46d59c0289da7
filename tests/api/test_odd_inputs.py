"""Odd kinds of value in every place: taken rightly, or refused in a sentence that names the place; never by luck.

``PYTHONPATH=tests python tests/api/test_odd_inputs.py`` prints how many cases of each place have which verdict
(docs/reliability.md).
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest

from odd_cases import MAKERS, Case, N, score, table_with_groups
from odd_values import judge


def verdict_of(case: Case) -> tuple[str, str]:
    """Right, clear error, raw or silent; a clear error is not enough where the kind must be taken."""
    verdict, said = judge(case.run, case.expected, case.where)
    return ("raw", f"it must be taken: {said}") if case.taken and verdict == "clear error" else (verdict, said)


def report(cases: Iterable[Case]) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Cases by place and verdict, and what is said of those that are raw, silent or slow (5 seconds or more)."""
    found: Counter[tuple[str, str]] = Counter()
    wrong = []
    for case in cases:
        begin = time.perf_counter()
        verdict, said = verdict_of(case)
        slow = time.perf_counter() - begin > 5
        found[case.place, verdict] += 1
        found[case.place, "slow"] += slow
        if verdict in ("raw", "silent") or slow:
            wrong.append(f"{verdict}: {case.place}, {case.kind}: {said}")
    return found, wrong


@pytest.mark.parametrize("make", MAKERS)
def test_odd_values_are_taken_rightly_or_refused_in_words(make):
    found, wrong = report(make())
    assert not [one for one in wrong if one.startswith(("raw", "silent"))]
    assert found.total() > 50


def test_the_judge_knows_raw_and_silent_from_right_and_clear():
    def fails(error):
        raise error

    cases = {
        "right": (lambda: np.ones(3), np.ones(3)),
        "silent": (lambda: np.ones(3), np.zeros(3)),
        "clear error": (lambda: fails(ValueError("Column 'b' holds a list in row 3: make it a number.")), None),
        "raw": (lambda: fails(AttributeError("'list' object has no attribute 'dtype'.")), None),
    }
    for verdict, (run, expected) in cases.items():
        assert judge(run, expected, "'b'")[0] == verdict
    assert judge(lambda: np.ones(3), None, "'b'")[0] == "silent"
    assert judge(lambda: np.full(3, np.nan), np.full(3, np.nan), "'b'")[0] == "silent"
    for error in (
        ValueError("Something about the data is wrong here."),  # no place
        TypeError("Column 'b': unsupported operand, cannot convert float to list."),  # internals
        KeyError("Column 'b' holds a list in row 3: make it a number."),  # not a kind that users expect
        ValueError("'b'"),  # no sentence
    ):
        assert judge(partial(fails, error), None, "'b'")[0] == "raw"


def test_the_judge_finds_an_estimator_that_forgets_the_mask():
    masked = np.ma.array(table_with_groups()[:, :2], mask=np.arange(2 * N).reshape(N, 2) == 7)
    filled = np.where(masked.mask, np.nan, masked.data)
    expected = score(X=filled)
    assert judge(partial(score, X=masked), expected, "X")[0] == "right"
    assert judge(lambda: score(X=masked.data), expected, "X")[0] == "silent"


if __name__ == "__main__":
    found, wrong = report(case for make in MAKERS for case in make())
    verdicts = ("right", "clear error", "raw", "silent", "slow")
    places = list(dict.fromkeys(place for place, _ in found))
    rows = [(place, *(found[place, one] for one in verdicts)) for place in places]
    rows.append((f"all {found.total()}", *(sum(row[k] for row in rows) for k in range(1, 6))))
    lines = ["| place | " + " | ".join(verdicts) + " |", "|---|" + "---:|" * len(verdicts)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    sys.stdout.write("\n".join([*lines, *wrong, ""]))
