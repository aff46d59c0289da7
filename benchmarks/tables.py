"""Plain tables, which stay readable in a file."""

from collections.abc import Sequence


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as their longest cell: the first to the left, the others to the right."""
    lines = [headers, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    for line in lines:
        first, *others = (f"{cell:{'>' if i else '<'}{widths[i]}}" for i, cell in enumerate(line))
        print("  ".join([first, *others]).rstrip())
