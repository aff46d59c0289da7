"""``python -m vbsvm`` is ``vbsvm``."""

from vbsvm.cli import main

if __name__ == "__main__":
    main(prog_name="vbsvm")
