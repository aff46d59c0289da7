"""What is said of the package where it is published agrees with the package."""

import re
import tomllib
from pathlib import Path

import pytest

import vbsvm

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="files of the repository are not in the source distribution"
)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def parsed(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML, which reads these files, is not installed")
    return yaml.safe_load(text(name))


def test_every_file_names_the_same_version():
    assert PROJECT["version"] == vbsvm.__version__
    assert parsed("CITATION.cff")["version"] == vbsvm.__version__
    assert f'version = "{vbsvm.__version__}"' in text("recipe/meta.yaml")
    assert text("CHANGELOG.md").split("## ")[1].startswith(vbsvm.__version__)


def test_the_project_has_the_addresses_that_an_index_shows():
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())


def test_the_changelog_has_the_usual_headings():
    coming = text("CHANGELOG.md").split("\n## ")[1]
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", coming, re.M)) <= allowed


def test_the_paper_has_the_sections_and_the_length_that_the_journal_asks_for():
    body = text("paper/paper.md").split("---", 2)[2]
    sections = re.findall(r"^# (.*)$", body, re.M)
    assert sections[:6] == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
    ]
    assert 750 <= len(body.split()) <= 1750


def test_the_recipe_needs_what_the_project_needs():
    run = re.findall(r"^    - (\S+) >=(\S+)$", text("recipe/meta.yaml").split("  run:")[1].split("test:")[0], re.M)
    needed = [tuple(one.split(">=")) for one in PROJECT["dependencies"]]
    assert run == [("python", PROJECT["requires-python"].removeprefix(">=")), *needed]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_and_templates_are_sound(path):
    content = parsed(path.relative_to(ROOT))
    if path.parent.name == "workflows":
        assert {"name", True, "permissions", "jobs"} <= set(content)  # YAML reads "on" as true
        for job in content["jobs"].values():
            assert job["runs-on"]
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])
            needed = [job["needs"]] if "needs" in job else []
            assert set(needed) <= set(content["jobs"])
            assert all(re.search(r"@(v\d+|release/v1)$", step["uses"]) for step in job["steps"] if "uses" in step)
        for target in re.findall(r"run: make (\S+)", path.read_text(encoding="utf-8")):
            if target != "docs" or "docs:" in text("Makefile"):
                assert re.search(rf"^{target}:", text("Makefile"), re.M), target
    elif path.name != "config.yml":
        assert content["body"]


def test_the_tests_run_on_every_version_and_system():
    matrix = parsed(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    told = [one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert matrix["python"] == told == ["3.11", "3.12", "3.13", "3.14"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    extras = PROJECT["optional-dependencies"]
    needed = [one for name in ("plots", "report", "arviz", "files", "dask") for one in extras[name]]
    needed += PROJECT["dependencies"] + [one for one in extras["dev"] if one.startswith(("polars", "pytest>"))]
    lines = [line for line in text("tests/oldest.txt").splitlines() if not line.startswith("#")]
    on_the_oldest_python = {line.split("; ")[0] for line in lines if not re.search(r"python_version [>=]=", line)}
    assert on_the_oldest_python == {re.sub(r"\[.*\]", "", one).replace(">=", "==") + ".*" for one in needed}


def test_the_matrix_of_tests_has_every_version():
    told = re.search(r"^PYTHONS := (.*)$", text("Makefile"), re.M)
    assert (
        told.group(1).split() == parsed(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"]
    )


def test_only_publishing_may_identify_itself():
    jobs = parsed(".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["if"] == "github.event_name == 'release'"


def test_the_paper_cites_what_it_lists():
    cited = set(re.findall(r"@([a-z]+\d{4})", text("paper/paper.md")))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text("paper/paper.bib"), re.M))


def test_pre_commit_runs_the_linter_of_the_project():
    hooks = [hook["id"] for repo in parsed(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {"ruff-check", "ruff-format"} <= set(hooks)
