"""Files that are whole or not there: threads that write at once, and what killed processes leave."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vbsvm.report.document import write_page
from vbsvm.storage import atomic
from vbsvm.storage.atomic import atomic_write, remove


def written_by_two_threads(path, times=200):
    """How many writes of two threads to one path failed, and whether what is there is whole."""
    texts, failures = ["a" * 2000, "b" * 2000], []

    def write(text):
        for _ in range(times):
            try:
                write_page(path, text)
            except OSError as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures), path.read_text() in texts


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that takes half a millisecond, in which the other thread has its turn."""
    monkeypatch.setattr(os, "fsync", lambda file: time.sleep(0.0005))


def test_two_threads_lose_none_of_400_writes_to_one_path(tmp_path, slow_disk):
    assert written_by_two_threads(tmp_path / "page.html") == (0, True)
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_names_by_process_alone_would_lose_some(tmp_path, slow_disk, monkeypatch):
    """The planted cause: both threads write under one name."""
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda n: "same")
    assert written_by_two_threads(tmp_path / "page.html")[0] > 0


def left_by_a_killed_process(path):
    script = (
        "import os, sys; from vbsvm.storage.atomic import atomic_write\n"
        "with atomic_write(sys.argv[1]) as file:\n    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)"
    )
    source = str(Path(atomic.__file__).parents[2])
    subprocess.run([sys.executable, "-c", script, path], check=False, env={**os.environ, "PYTHONPATH": source})
    (left,) = [one for one in path.parent.iterdir() if one.name.endswith(".part")]
    return left


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_what_a_killed_process_left_is_removed(tmp_path):
    path = tmp_path / "m.vbsvm"
    left = left_by_a_killed_process(path)
    other = tmp_path / f".{'another'}{left.name.removeprefix('.m.vbsvm')}"
    other.write_bytes(b"of another file")
    content = left.read_bytes()
    with atomic_write(path) as file:
        file.write(b"whole")
    assert {one.name for one in tmp_path.iterdir()} == {"m.vbsvm", other.name}
    left.write_bytes(content)
    remove(path)
    assert [one.name for one in tmp_path.iterdir()] == [other.name]


def test_what_others_are_writing_stays(tmp_path):
    """Parts of this process, of one that still runs, and of other machines; the last for some days."""
    path = tmp_path / "m"
    running = tmp_path / f".m.{atomic.MACHINE_ID}.{os.getppid()}.00000000.part"
    elsewhere = tmp_path / ".m.ffffffff.1.00000000.part"
    for one in (running, elsewhere):
        one.write_bytes(b"")
    with atomic_write(path) as first:
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"first")
    assert path.read_bytes() == b"first"
    assert {one.name for one in tmp_path.iterdir()} == {"m", running.name, elsewhere.name}
    old = elsewhere.stat().st_mtime - 2 * atomic.STALE_SECONDS
    os.utime(elsewhere, (old, old))
    remove(path)
    assert [one.name for one in tmp_path.iterdir()] == [running.name]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*page\.html"):
        write_page(tmp_path / "page.html", "text")
    assert list(tmp_path.iterdir()) == []
