"""Run the code of pages and write below each block what it prints: ``python docs/outputs.py PAGE…``.

The blocks of a page run in order, in one process, like one script. A block that prints is followed by a block of text
with its output; ``tests/test_docs.py`` runs the pages and compares. A picture that follows a block, or precedes the
first one, is the figure that the block leaves, and is drawn by ``docs/pictures.py``. Commands of the shell (``sh``) run
where output follows them.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from vbsvm import OneClassWarning, ReliabilityWarning, plots

PICTURE = r"!\[[^\]]*\]\((?P<picture>[^)]+\.png)\)"
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>python|sh)\n(?P<code>.*?)^ *```\n(?:\n* *```text\n(?P<shown>.*?)^ *```\n)?"
    r"(?:(?=(?:\s|:::[^\n]*\n)*" + PICTURE + r"))?",
    flags=re.DOTALL | re.MULTILINE,
)
WIDTH = 88  # of the printed text, in characters: that of a block on the site
DPI = 140


def run(page: Path, folder: str | Path, *, pictures: bool = False) -> list[tuple[str, str]]:
    """What the page shows below each block, and what the block prints when it runs in a folder."""
    text = page.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    names = [block["picture"] for block in blocks]
    before = re.search(PICTURE, text[: blocks[0].start()])
    if before:
        names[0] = before["picture"]
    jobs = [
        {
            "page": str(page),
            "language": block["language"] if block["language"] == "python" or block["shown"] else None,
            "code": "\n" * text.count("\n", 0, block.start("code")) + textwrap.dedent(block["code"]),
            "picture": name and str(page.parent.resolve() / name),
            "save": pictures,
        }
        for block, name in zip(blocks, names, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, "--run"],
        input=json.dumps(jobs),
        env=os.environ | {"COLUMNS": "80", "MPLBACKEND": "Agg"},
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{page}: {done.stderr}")
    shown = [textwrap.dedent(block["shown"] or "") for block in blocks]
    return list(zip(shown, json.loads(done.stdout.splitlines()[-1]), strict=True))


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    sys.stdout.write(textwrap.fill(f"{category.__name__}: {message}", WIDTH) + "\n")


def _run_command(line: str) -> None:
    """Run a command such as ``vbsvm fit …``, and print what it prints."""
    command = [sys.executable, "-m", *shlex.split(line)]
    sys.stdout.write(subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout)


def _run_jobs() -> None:
    """Run the blocks that standard input lists, and print their outputs as JSON; warnings of the package are output."""
    for category in (OneClassWarning, ReliabilityWarning):
        warnings.simplefilter("default", category)
    warnings.showwarning = _show_warning
    pd.set_option("display.width", WIDTH)
    names: dict[str, object] = {"__name__": "__main__"}
    outputs: list[str] = []
    for job in json.load(sys.stdin):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            if job["language"] == "python":
                exec(compile(job["code"], job["page"], "exec"), names)
            elif job["language"] == "sh":
                for line in job["code"].split("\n"):
                    if line:
                        _run_command(line)
        outputs.append(output.getvalue())
        if job["picture"] and not plt.get_fignums():
            raise ValueError(f"{job['picture']}: the block leaves no figure")
        if job["picture"] and job["save"]:
            plots.save(plt.gcf(), job["picture"], dpi=DPI)
        plt.close("all")
    sys.stdout.write(json.dumps(outputs) + "\n")


def rewrite(page: Path) -> None:
    """Write the outputs of a page's blocks into the page."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = iter([output for _, output in run(page, folder)])

    def written(block: re.Match[str]) -> str:
        code = f"```{block['language']}\n{block['code']}{block['indent']}```\n"
        output = "\n".join(line.rstrip() for line in next(outputs).rstrip().splitlines())
        text = textwrap.indent(f"\n```text\n{output}\n```\n", block["indent"]) if output else ""
        return block["indent"] + code + text

    page.write_text(BLOCK.sub(written, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        _run_jobs()
    else:
        for name in sys.argv[1:]:
            rewrite(Path(name))
