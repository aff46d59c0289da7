"""Draw the pictures of pages with the code that the pages show: ``python docs/pictures.py PAGE…``."""

import sys
import tempfile
from pathlib import Path

import outputs

if __name__ == "__main__":
    for page in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            outputs.run(Path(page), folder, pictures=True)
