"""What Python warns of and advises, in one line and by the options of the command line."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import click

from vbsvm.base.printing import visible, visible_lines

# Advice that names Python's objects, and the option that does the same.
OPTIONS = [
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
    (r"; VBSVC fits all of them at once", "; --target fits all of them at once"),
    (r"^(?:Model\.fit|VBSVC(?:\.fit)?|VBLogistic(?:\.fit)?): (\w)", lambda found: found[1].upper()),
    (r"^(?:Model\.fit|VBSVC(?:\.fit)?|VBLogistic(?:\.fit)?) (?=stopped|reached|was|found)", "The fit "),
]


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
