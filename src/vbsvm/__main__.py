"""``python -m vbsvm demo``, with ``--report PATH`` for the page that it writes."""

import argparse


def main() -> None:
    """Run the command that was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m vbsvm", description="Support vector machines that tune themselves."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    shown = commands.add_parser("demo", help="fit real data without tuning, beside a tuned linear SVM")
    shown.add_argument(
        "--report", default="vbsvm-demo.html", metavar="PATH", help="where the report goes (%(default)s)"
    )
    given = parser.parse_args()

    from vbsvm import demo

    demo.run(given.report)


if __name__ == "__main__":
    main()
