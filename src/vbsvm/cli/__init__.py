"""The command line: ``vbsvm``, or ``python -m vbsvm``.

Commands are loaded by name when they are called, so that ``vbsvm --help`` imports nothing heavy. What is wrong with a
user's file or formula is one sentence on stderr, never a traceback. It may import every other package, and only
``__main__`` imports it.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, final

import click

from vbsvm.base.printing import visible, visible_lines, wrap_text
from vbsvm.version import __version__

INTERRUPTED = 130
# Name, where the command is, and what the list of commands says of it.
COMMANDS = {
    "fit": ("vbsvm.cli.fitting:fit", "Fit a model to a table and save it."),
    "predict": ("vbsvm.cli.models:predict", "Predict the rows of a table with a saved model."),
    "summary": ("vbsvm.cli.models:summary", "Show the coefficients of a saved model."),
    "effects": ("vbsvm.cli.models:effects", "Average predicted probabilities over the values of a predictor."),
    "report": ("vbsvm.cli.models:report", "Write a report of a saved model as one HTML page."),
    "demo": ("vbsvm.cli.models:demo", "Fit real data without tuning, and compare with a tuned linear SVM."),
    "reproduce": ("vbsvm.cli.models:reproduce", "Reproduce the paper's findings on its own data."),
}
CHECKOUT = Path(__file__).parents[3]


@final
class Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        if cmd_name == "reproduce" and (CHECKOUT / "reproduction" / "command.py").is_file():
            sys.path.insert(0, str(CHECKOUT))
            module = "reproduction.command"
        return getattr(import_module(module), name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command; of one that is not there, say which may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], COMMANDS) if args else []
            if not near or near[0] in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; say in a sentence what is wrong with what the user gave it."""
        try:
            with warnings_in_a_line():
                return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = visible_lines(error.message)
            raise
        except KeyboardInterrupt:
            click.echo("Interrupted: nothing was written.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:  # the reader of our output has gone, as head does; click ends quietly
            raise
        except FileNotFoundError as error:
            missing = f"There is no file {error.filename}." if error.filename else error
            raise click.ClickException(visible(missing)) from error
        except (ValueError, TypeError, OSError, ImportError, MemoryError, FloatingPointError) as error:
            raise click.ClickException(with_cli_options(error) or type(error).__name__) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vbsvm", message="%(prog)s %(version)s")
def main() -> None:
    """Linear support vector machines and logistic models that tune themselves, by variational Bayes.

    \b
    Examples:
      vbsvm fit visits.csv --formula "outcome ~ visit * treatment + (1 | patient)" --out model.vbsvm
      vbsvm fit patients.csv --target disease --out model.vbsvm
      vbsvm predict model.vbsvm new.csv --proba --out predictions.csv
      vbsvm summary model.vbsvm
    """


# Advice that names Python's objects, and the option that does the same.
OPTIONS = [
    (r"\bcovariance=['\"]([\w-]+)['\"]", r"--covariance \1"),
    (r"\breached max_iter \((\d+) iterations\)", r"reached the limit of \1 iterations"),
    (r"\bIncrease max_iter with (.*?), or use a larger tol\b", r"Allow more with \1"),
    (r"\b(?:inference=)?Variational\(max_iter=(?:…|(\d+))\)", lambda found: f"--max-iter {found[1] or 'N'}"),
    (r"\blikelihood_power=['\"]calibrated['\"], or a logistic model", "--likelihood logistic"),
    (r"`?\blikelihood=['\"](logistic|hinge)['\"]`?(?: \(Model\) or VBLogistic)?", r"--likelihood \1"),
    (r"\bVBLogistic, or Model\(…, likelihood=['\"]logistic['\"]\)", "--likelihood logistic"),
    (r"\b(?:inference=)?Gibbs\(\)", "--gibbs"),
    (r"\bGibbs\(draws=(\d+), tune=(\d+)\)", r"--draws \1 --tune \2"),
    (
        r"Use a tighter prior, such as Ridge\(3, 3\) or Normal\(1\.0\), or "
        r"inference=Variational\(\), which stays finite\.",
        "Leave out --gibbs: variational Bayes stays finite.",
    ),
    (r"\binference=Variational\(\)", "variational Bayes, without --gibbs"),
    (
        r"`?class_weight=['\"]balanced['\"]`?(?: \([^)]*\))?(?:,? or (?:in a formula )?`?weights=[^\s,.;:)]*)?",
        "--balanced",
    ),
    (r"\bweights=\S* with \S+ for its rows and \S+ for all others(?=\.)", "--balanced"),
    (r"`?\bweights=[^\s,.;:)]*", "--balanced or --weights"),
    (r"\bpositive=(\S+?)(?=[.,;:]?(?:\s|$))", r"--positive \1"),
    (r"^keep: ", "--keep: "),
    (r"\bFiles\(…, memory_limit=…\)", "--memory-limit"),
    (r"^Files: memory_limit\b", "--memory-limit"),
    (r"\bas in Files\(…, cache='folder'\)", "with --cache"),
    (r"use by=\{.*?\} to compare at these values, or ", ""),
    (r"; VBSVC fits all of them at once", "; --target fits all of them at once"),
    (r"^(?:Model\.fit|VBSVC(?:\.fit)?|VBLogistic(?:\.fit)?): (\w)", lambda found: found[1].upper()),
    (r"^(?:Model\.fit|VBSVC(?:\.fit)?|VBLogistic(?:\.fit)?) (?=stopped|reached|was|found)", "The fit "),
]


def with_cli_notes(text: str) -> str:
    """A printed summary in which the notes advise options of the command line."""
    blocks = [(block, " ".join(block.split())) for block in text.split("\n\n")]
    notes = [(block, line, with_cli_options(line) if line.endswith(".") else line) for block, line in blocks]
    return "\n\n".join(block if note == line else wrap_text(note) for block, line, note in notes)


def say(text: str, *, err: bool = False) -> None:
    """Print text with its control characters escaped."""
    click.echo(visible_lines(text), err=err)


@final
class _Terminal:
    """A terminal as a file to which tables are written."""

    def write(self, text: str) -> int:
        """Write text without its control characters."""
        return sys.stdout.write(visible_lines(text.replace(os.linesep, "\n")))


def stdout() -> Any:
    """Output stream of tables: control characters are escaped on a terminal, not in a pipe or file."""
    return _Terminal() if is_terminal() else sys.stdout


def is_terminal() -> bool:
    """Whether output goes to a terminal."""
    return sys.stdout.isatty()


def with_cli_options(message: object) -> str:
    """A message in one line, with Python arguments replaced by command-line options."""
    text = visible(" ".join(str(message).split()))
    for pattern, option in OPTIONS:
        text = re.sub(pattern, option, text)
    return text


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Show each warning once, on stderr."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = with_cli_options(message)
        if text not in shown:
            shown.add(text)
            say(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
