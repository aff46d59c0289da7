"""Answers of fits, and fits to files and clusters, whose results are frozen and compared by ``golden.py``."""

import re
import shlex
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from golden_models import DRAWS, Run, grouped, table
from vbsvm import (
    VBSVC,
    LaplaceZero,
    Model,
    VBLogistic,
    compare,
    compare_models,
    cross_validate,
    pool,
)
from vbsvm.dask import DaskVBLogistic, DaskVBSVC


def numbers_and_text(name: str, frame: Any) -> dict[str, Any]:
    """A table as numbers and as text."""
    numeric = frame.select_dtypes("number") if isinstance(frame, pd.DataFrame) else frame
    return {name: np.asarray(numeric, dtype=float), f"{name}, text": frame.to_string()}


def of_fit(fit: Callable[[], Any], ask: Callable[[Any], dict[str, Any]]) -> Run:
    """Answers of one fit."""
    return lambda: ask(fit())


def effects(variable: str, by: str, number: str, **settings: Any) -> Callable[[Any], dict[str, Any]]:
    """Marginal effects of a category and of a number."""

    def ask(fit: Any) -> dict[str, Any]:
        return (
            numbers_and_text("effects", fit.effects(variable, **settings))
            | numbers_and_text("effects by", fit.effects(number, by=by, **settings))
            | numbers_and_text("contrasts", fit.contrasts(variable, **settings))
            | numbers_and_text("ratios", fit.contrasts(variable, kind="ratio", **settings))
            | numbers_and_text("slopes", fit.slopes(number, **settings))
        )

    return ask


def tables(fit: Any) -> dict[str, Any]:
    """Every kind of covariance, and the tables of other packages' form."""
    found = {}
    for kind in ("robust", "posterior", "curvature", "mean-field"):
        try:
            found |= numbers_and_text(kind, fit.summary(covariance=kind))
        except ValueError as error:
            found[kind] = str(error)
    found |= numbers_and_text("tidy", fit.tidy()) | numbers_and_text("glance", fit.glance())
    if isinstance(fit, VBSVC | VBLogistic):
        return found
    found |= numbers_and_text("components", fit.variance_components())
    found |= numbers_and_text("covariance", fit.coefficient_covariance())
    return found | {"shown": str(fit), "html": fit._repr_html_()}


def left_out(fitted: Any) -> dict[str, Any]:
    """Leave-one-out predictions, refitted and not."""
    approximate, refitted = fitted.left_out_predictions(refits=0), fitted.left_out_predictions()
    return {
        "approximate": approximate.table().to_numpy(dtype=float) if hasattr(approximate, "table") else str(approximate),
        "approximate, text": str(approximate),
        "refitted, text": str(refitted),
    }


def page(fit: Callable[[], Any]) -> Run:
    """The text of a report, without its pictures."""

    def run() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(fit().report(Path(folder) / "report.html")).read_text(encoding="utf-8")
        text = re.sub(r"<svg.*?</svg>|data:[^\"')]*", "", text, flags=re.DOTALL)
        return {"report": re.sub(r"\s*\n\s*", "\n", text)}

    return run


def imputed(fit: Any, data: Any, **settings: Any) -> dict[str, Any]:
    """Means and standard deviations of missing values, and several draws of them."""
    drawn = fit.impute(data, n=3, random_state=2, **settings)
    found = {f"drawn {k}": pd.DataFrame(one).to_string() for k, one in enumerate(drawn)}
    found |= {f"moment {k}": pd.DataFrame(one).to_string() for k, one in enumerate(fit.impute(data))}
    return found | numbers_and_text("summary", fit.missing_summary())


def pooled() -> dict[str, Any]:
    """Rubin's rules over fits to completed tables."""
    X, y = table(150, 6, missing=0.2)
    first = VBLogistic().fit(X, y)
    fits = [VBLogistic().fit(one, y) for one in first.impute(X, n=4, y=y, random_state=1)]
    return numbers_and_text("pooled", pool(fits).summary())


def adapted() -> dict[str, Any]:
    """New groups from their first rows."""
    data = grouped()
    old, new = data[data["a"] < 20], data[data["a"] >= 20]
    found = {}
    for likelihood in ("hinge", "logistic"):
        fit = Model("y ~ x + (1 | a)", old, likelihood=likelihood).fit()
        later = fit.adapt(new)
        found[f"{likelihood}, before"] = fit.predict_proba(new)
        found[f"{likelihood}, after"] = later.predict_proba(new)
        found |= numbers_and_text(f"{likelihood}, effects", later.random_effects())
    return found


def in_batches(kind: Any) -> Run:
    """``partial_fit``, batch by batch, and a warm start."""

    def run() -> dict[str, Any]:
        X, y = table(400, 6)
        clf = kind()
        for k in range(0, 400, 100):
            clf.partial_fit(X[k : k + 100], y[k : k + 100], classes=["no", "yes"])
        warm = kind(warm_start=True).fit(X, y)
        warm.fit(X[:300], y[:300])
        found = {"scores": clf.decision_function(X), "cov": clf.coef_cov_, "warm": warm.decision_function(X)}
        return found | {"object": clf, "data": X}

    return run


def compared() -> dict[str, Any]:
    """Comparisons of models and of inferences, and cross-validation."""
    data = grouped()
    one, other = Model("y ~ x + (1 | a)", data), Model("y ~ x + k", data)
    hinge = Model("y ~ x + k", data, likelihood="hinge")
    folds = cross_validate(one, folds=4, groups="a")
    return {
        "models": str(compare_models({"one": one.fit(), "other": other.fit(), "hinge": hinge.fit()}, refits=0)),
        "inferences": str(compare(hinge.fit(), hinge.fit(DRAWS, random_state=1))),
        "folds": str(folds),
    }


def sensitivity() -> dict[str, Any]:
    """Tables of analyses that assume values not missing at random."""
    X, y = table(150, 6, missing=0.2)
    found = numbers_and_text("classifier", VBSVC().sensitivity(X, y, deltas=[-0.5, 0.0, 0.5]))
    model = Model("y ~ x + z", grouped(missing=0.15).drop(columns="k"))
    return found | numbers_and_text("model", model.sensitivity([-0.5, 0.5], columns=["x"]))


@contextmanager
def written(data: pd.DataFrame, kind: str):
    """Three files of uneven size."""
    with tempfile.TemporaryDirectory() as folder:
        for k, part in enumerate(np.split(np.arange(len(data)), [40, 110])):
            rows, path = data.iloc[part], Path(folder) / f"{k}.{kind}"
            rows.to_parquet(path, index=False) if kind == "parquet" else rows.to_csv(path, index=False)
        yield Path(folder)


def from_files(kind: str, class_: Any = VBSVC, missing: float = 0.0, **settings: Any) -> Run:
    """A classifier of rows in files, and predictions written to a file."""

    def run() -> dict[str, Any]:
        X, y = table(300, 5, missing=missing)
        data = X.assign(y=y, g=np.arange(300) % 11)
        features = [*X.columns, "g"] if settings.get("group") else list(X.columns)
        with written(data, kind) as folder:
            clf = class_(**settings)
            clf.fit_files(str(folder / f"*.{kind}"), "y", features=features)
            clf.predict_files(str(folder / f"*.{kind}"), folder / "out.csv", proba=True, scores=True)
            predicted = pd.read_csv(folder / "out.csv")
        found = {"scores": clf.decision_function(data[features]), **numbers_and_text("summary", clf.summary())}
        return found | numbers_and_text("predicted", predicted) | {"object": clf, "data": data[features]}

    return run


def formula_from_files(text: str, kind: str = "parquet", missing: float = 0.0, **settings: Any) -> Run:
    """A Model of rows in files."""

    def run() -> dict[str, Any]:
        data = grouped(missing=missing)
        with written(data, kind) as folder:
            fit = Model(text, str(folder / f"*.{kind}"), **settings).fit()
        found = {"scores": fit.decision_function(data), "shown": str(fit), "bounds": np.r_[len(fit.bounds), fit.elbo]}
        return found | {**numbers_and_text("summary", fit.summary()), "object": fit, "data": data}

    return run


def on_a_cluster() -> dict[str, Any]:
    """Rows in workers: tables and formulas, both likelihoods, groups, missing values."""
    import dask.dataframe as dd

    from clusters import workers

    X, y = table(300, 5)
    lost, _ = table(300, 5, missing=0.2)
    mixed, mixed_lost = grouped(), grouped(missing=0.15)
    found = {}
    with workers(2):

        def placed(data: pd.DataFrame) -> Any:
            return dd.from_pandas(data, npartitions=3, sort=False)

        rows, rows_lost = placed(X.assign(y=y, g=np.arange(300) % 11)), placed(lost.assign(y=y))
        names = list(X.columns)
        for name, clf, part, columns in (
            ("hinge", DaskVBSVC(), rows, names),
            ("hinge, group", DaskVBSVC(group="g"), rows, [*names, "g"]),
            ("hinge, gates", DaskVBSVC(LaplaceZero()), rows, names),
            ("hinge, missing", DaskVBSVC(), rows_lost, names),
            ("logistic", DaskVBLogistic(), rows, names),
            ("logistic, group", DaskVBLogistic(group="g"), rows, [*names, "g"]),
        ):
            clf.fit(part[columns], part["y"])
            found[name] = np.r_[clf.coef_.ravel(), clf.intercept_]
        for text, data, likelihood in (
            ("y ~ x * k + (1 | a)", mixed, "logistic"),
            ("y ~ x + (x | a)", mixed, "hinge"),
            ("y ~ s(z) + (1 | b)", mixed, "logistic"),
            ("y ~ x + k", mixed_lost, "hinge"),
        ):
            fit = Model(text, placed(data), likelihood=likelihood).fit()
            found |= numbers_and_text(f"{text}, {likelihood}", fit.summary())
            found[f"{text}, {likelihood}, scores"] = fit.decision_function(data)
    return found


def command_line() -> dict[str, Any]:
    """What commands print and write."""
    from click.testing import CliRunner

    from vbsvm.cli import main

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grouped(missing=0.05).to_csv(folder / "d.csv", index=False)
        for k, words in enumerate(
            (
                "fit F/d.csv --formula 'y ~ x + k + (1 | a)' --output F/m.vbsvm",
                "fit F/d.csv --formula 'y ~ x + z' --likelihood hinge --output F/h.vbsvm",
                "summary F/m.vbsvm",
                "predict F/m.vbsvm F/d.csv --proba",
                "effects F/m.vbsvm F/d.csv k",
                "fit --help",
                "predict F/none.vbsvm F/d.csv",
                "fit F/d.csv --formula 'y ~ q'",
            )
        ):
            result = CliRunner().invoke(main, [part.replace("F/", f"{folder}/") for part in shlex.split(words)])
            found[f"{k} {words}"] = f"{result.exit_code}\n{result.output}".replace(str(folder), "F")
    return found


def models() -> dict[str, Run]:
    """Every kind of answer."""
    data, lost, (X, y) = grouped(), grouped(missing=0.15), table(200, 6)
    incomplete, labels = table(150, 6, missing=0.2)
    numbers = lost.drop(columns="k")

    def model(text: str, rows: pd.DataFrame = data, inference: Any = None, **settings: Any) -> Callable[[], Any]:
        return lambda: Model(text, rows, **settings).fit(inference, random_state=1)

    def classifier(kind: Any, table: Any = X, target: Any = y, **settings: Any) -> Callable[[], Any]:
        return lambda: kind(**settings, random_state=1).fit(table, target)

    mixed, fixed = "y ~ x + k + z + (1 | a)", "y ~ x * k + z"
    return {
        "effects, logistic": of_fit(model(fixed), effects("k", "k", "x")),
        "effects, hinge": of_fit(model(fixed, likelihood="hinge"), effects("k", "k", "x")),
        "effects, mixed": of_fit(model(mixed), effects("k", "k", "x")),
        "effects, new groups": of_fit(model(mixed), effects("k", "k", "x", groups="new")),
        "effects, Gibbs": of_fit(model(fixed, inference=DRAWS), effects("k", "k", "x")),
        "effects, classifier": of_fit(classifier(VBSVC), lambda fit: numbers_and_text("slopes", fit.slopes("x0"))),
        "effects, VBLogistic": of_fit(classifier(VBLogistic), lambda fit: numbers_and_text("e", fit.effects("x0"))),
        "tables, hinge": of_fit(model(mixed, likelihood="hinge"), tables),
        "tables, logistic": of_fit(model(mixed), tables),
        "tables, fixed": of_fit(model(fixed), tables),
        "tables, slopes": of_fit(model("y ~ x + (x | a)"), tables),
        "tables, VBSVC": of_fit(classifier(VBSVC), tables),
        "tables, missing": of_fit(model("y ~ x + z", numbers), tables),
        "tables, Gibbs": of_fit(model(mixed, inference=DRAWS), tables),
        "left out, hinge": of_fit(classifier(VBSVC), left_out),
        "left out, logistic": of_fit(model(mixed), left_out),
        "left out, wide": of_fit(classifier(VBLogistic, *table(30, 60)), left_out),
        "report, mixed": page(model(mixed)),
        "report, hinge": page(model(mixed, likelihood="hinge")),
        "report, missing": page(model("y ~ x + z", numbers)),
        "report, selection": page(classifier(VBLogistic, prior=LaplaceZero())),
        "report, Gibbs": page(model(mixed, inference=DRAWS)),
        "imputed": of_fit(classifier(VBSVC, incomplete, labels), lambda fit: imputed(fit, incomplete)),
        "imputed, labels": of_fit(
            classifier(VBLogistic, incomplete, labels), lambda fit: imputed(fit, incomplete, y=labels)
        ),
        "imputed, categories": of_fit(model("y ~ x + k", lost), lambda fit: imputed(fit, lost)),
        "pooled": pooled,
        "adapted groups": adapted,
        "batches, hinge": in_batches(VBSVC),
        "batches, logistic": in_batches(VBLogistic),
        "compared": compared,
        "sensitivity": sensitivity,
        "files, parquet": from_files("parquet"),
        "files, csv": from_files("csv", class_=VBLogistic),
        "files, group": from_files("parquet", group="g"),
        "files, gates": from_files("parquet", prior=LaplaceZero()),
        "files, missing": from_files("csv", missing=0.2),
        "formula in files, intercepts": formula_from_files("y ~ x * k + (1 | a)"),
        "formula in files, slopes": formula_from_files("y ~ x + (x | a)", "csv", likelihood="hinge"),
        "formula in files, splines": formula_from_files("y ~ s(z) + poly(x, 2) + (1 | a/c)"),
        "formula in files, missing": formula_from_files("y ~ x + k", "csv", missing=0.15),
        "cluster": on_a_cluster,
        "command line": command_line,
    }
