"""Results as they come, one line each, in a file that a killed run leaves usable."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from reproduction.work import Job, Result, Settings
from vbsvm.storage.atomic import atomic_write

NAME = "journal.jsonl"


class OtherSettingsError(ValueError):
    """The folder holds results of a run with other settings."""


@final
class Journal:
    """The results that a folder holds. The first line says which settings they belong to."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        self.results: dict[Job, Result] = {}
        text = self._path.read_text() if self._path.exists() else ""
        # A run that was killed may have left half a line.
        lines = text[: text.rfind("\n") + 1].splitlines()
        about = {"settings": asdict(settings)}
        if lines and json.loads(lines[0]) != about:
            raise OtherSettingsError(
                f"{self._path} holds results of a run with other settings: "
                f"{json.loads(lines[0])['settings']}, not {asdict(settings)}. "
                "Give the same options as then, name another folder with --out, or remove this one."
            )
        for line in lines[1:]:
            result = _result(json.loads(line))
            self.results[result.job] = result
        whole = "".join(f"{line}\n" for line in lines) or json.dumps(about) + "\n"
        if whole != text:
            with atomic_write(self._path) as file:
                file.write(whole.encode())

    def add(self, result: Result) -> None:
        """Keep a result, on disk before anything else is begun."""
        self.results[result.job] = result
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def _result(line: dict[str, Any]) -> Result:
    return Result(Job(**line["job"]), line["error"], line["seconds"], tuple(line["inclusion"]), tuple(line["positive"]))
