"""``python -m vbsvm demo``."""

import argparse


def main() -> None:
    """Run the command that was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m vbsvm", description="Support vector machines that tune themselves."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("demo", help="fit real data without tuning, beside a tuned linear SVM")
    parser.parse_args()

    from vbsvm import demo

    demo.run()


if __name__ == "__main__":
    main()
