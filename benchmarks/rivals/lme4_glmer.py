"""R's lme4: maximum likelihood with effects integrated out by Gauss and Hermite's rule, or Laplace's approximation."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd

# nAGQ is for a single random intercept; other models have Laplace's approximation.
SCRIPT = """
suppressMessages(library(lme4))
arguments <- commandArgs(trailingOnly = TRUE)
data <- read.csv(arguments[1])
fit <- suppressWarnings(glmer(as.formula(arguments[2]), data, family = binomial, nAGQ = as.integer(arguments[3]),
                              control = glmerControl(optimizer = "bobyqa")))
table <- summary(fit)$coefficients
components <- as.data.frame(VarCorr(fit))
components <- components[is.na(components$var2), ]
cat(paste(rownames(table), table[, 1], table[, 2], sep = "\\t", collapse = "\\n"), "\\n--\\n", sep = "")
cat(paste(components$grp, components$var1, components$sdcor, sep = "\\t", collapse = "\\n"), "\\n", sep = "")
"""
PROBE = 'if (!requireNamespace("lme4", quietly = TRUE)) quit(status = 1)'
NODES = 25

Numbers = dict[str, float]


def missing() -> str | None:
    """What is not installed; None where all is there."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    found = subprocess.run(["Rscript", "-e", PROBE], check=False, capture_output=True)
    return "R has no lme4" if found.returncode else None


def estimates(formula: str, data: pd.DataFrame) -> tuple[Numbers, Numbers, Numbers] | None:
    """Estimates, standard errors, and standard deviations of effects by our names; None where it is not installed."""
    if missing() is not None:
        return None
    single = formula.count("|") == 1 and "(1 |" in formula
    with tempfile.TemporaryDirectory() as folder:
        rows, script = Path(folder) / "rows.csv", Path(folder) / "fit.R"
        data.to_csv(rows, index=False)
        script.write_text(SCRIPT)
        command = ["Rscript", str(script), str(rows), formula, str(NODES if single else 1)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fixed, components = (part.strip().splitlines() for part in told.split("--\n"))
    means, errors, scales = {}, {}, {}
    for name, estimate, error in (line.split("\t") for line in fixed):
        means[_name(name)], errors[_name(name)] = float(estimate), float(error)
    for factor, effect, sd in (line.split("\t") for line in components):
        scales[_term(formula, factor.split(".")[0], _name(effect)) + f", {_name(effect)}"] = float(sd)
    return means, errors, scales


def _name(theirs: str) -> str:
    return "(intercept)" if theirs == "(Intercept)" else theirs


def _term(formula: str, factor: str, effect: str) -> str:
    """Which of our terms an effect belongs to; (x || g) is two terms."""
    if f"(x || {factor})" in formula:
        return f"(1 | {factor})" if effect == "(intercept)" else f"(0 + {effect} | {factor})"
    return f"(x | {factor})" if f"(x | {factor})" in formula else f"(1 | {factor})"
