"""Run the experiments: ``python -m reproduction [experiment]``."""

from reproduction.command import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m reproduction")
