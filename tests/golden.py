"""Results of many models, frozen with one version of the package and compared with another on the same machine.

``python tests/golden.py freeze DIR`` writes them, ``python tests/golden.py check DIR`` compares. ``make golden`` does
both, the first with the code of another commit. It is for changes that must not change any result. Bits differ between
machines, so nothing of it is kept in the repository, and it is no part of the tests.

The models are those of ``golden_models.py`` and ``golden_answers.py``; words after DIR choose those whose names contain
one of them. Only public names are used, so that both versions may look different inside.
"""

import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import golden_answers
import golden_models
from vbsvm import load

# Variational results may differ by the order of sums; draws may not differ at all.
TOLERANCE = 1e-10


def chosen(words: list[str]) -> list[tuple[int, str, golden_models.Run]]:
    """Number, name and function of each model whose name contains one of the words; all without words."""
    every = {**golden_models.models(), **golden_answers.models()}
    return [
        (number, name, run)
        for number, (name, run) in enumerate(every.items())
        if not words or any(word in name for word in words)
    ]


def split(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], Any, Any]:
    """Numbers, texts, what can be saved, and data to predict, of what a model gave."""
    fitted, data = found.pop("object", None), found.pop("data", None)
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    numbers = {key.replace("/", "|"): value for key, value in found.items() if key not in texts}
    return numbers, texts, fitted, data


def freeze(folder: Path, words: list[str]) -> int:
    """Write the results and the model files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name, run in chosen(words):
        numbers, texts, fitted, _ = split(run())
        if fitted is not None:
            fitted.save(folder / f"{number}.vbsvm")
        np.savez(folder / f"{number}.npz", **numbers)
        (folder / f"{number}.json").write_text(json.dumps(texts), encoding="utf-8")
        print(f"{name}: {len(numbers)} results, {len(texts)} texts", flush=True)
    return 0


def check(folder: Path, words: list[str]) -> int:
    """Compare with what was frozen, and read the frozen files; give the number of models that differ."""
    failed = 0
    for number, name, run in chosen(words):
        try:
            told, bad = compare(folder, number, name, run)
        except Exception:
            told, bad = traceback.format_exc(), True
        failed += bad
        print(f"{'DIFFERS' if bad else 'ok':8}{name}: {told}", flush=True)
    print(f"{failed} models differ")
    return failed


def compare(folder: Path, number: int, name: str, run: golden_models.Run) -> tuple[str, bool]:
    """What to print of one model, and whether it differs."""
    numbers, texts, fitted, data = split(run())
    with np.load(folder / f"{number}.npz") as frozen:
        wanted = dict(frozen)
    if fitted is not None:
        fitted.save(folder / "again.vbsvm")
        if data is not None:
            numbers["scores of the old file"] = load(folder / f"{number}.vbsvm").decision_function(data)
            wanted["scores of the old file"] = wanted["scores"]
    worst = {key: difference(numbers.get(key), one) for key, one in wanted.items()}
    bad = {key: size for key, size in worst.items() if not size <= (0.0 if key.startswith("draws") else TOLERANCE)}
    told = [f"{key} {size:.1e}" for key, size in bad.items()]
    for key, old in json.loads((folder / f"{number}.json").read_text(encoding="utf-8")).items():
        told += [f"{key}:\n{one}" for one in changed_lines(old, texts.get(key, ""))]
    return ", ".join(told) or f"same ({max(worst.values(), default=0.0):.1e})", bool(told)


def changed_lines(old: str, new: str) -> list[str]:
    """The first line in which two texts differ, as before and as now; nothing where they are the same."""
    if old == new:
        return []
    lines = [*zip(old.splitlines(), new.splitlines(), strict=False), ("", "(one of them is longer)")]
    return [next(f"  - {before}\n  + {now}" for before, now in lines if before != now)]


def difference(new: Any, old: Any) -> float:
    """Largest difference beside the size of the array; infinite where shapes differ or only one is NaN."""
    if new is None or np.shape(new) != np.shape(old):
        return float("inf")
    new, old = np.asarray(new, dtype=float), np.asarray(old, dtype=float)
    if (np.isnan(new) != np.isnan(old)).any() or (np.isinf(new) != np.isinf(old)).any():
        return float("inf")
    both = np.isfinite(new)
    size = np.abs(old[both]).max(initial=1e-300)
    return float(np.abs(new[both] - old[both]).max(initial=0.0) / size)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    command, where, *some = sys.argv[1:]
    sys.exit(1 if {"freeze": freeze, "check": check}[command](Path(where), some) else 0)
