"""``korealbert``, which ``python -m korealbert`` is too."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is loaded ends it as it does later, without a traceback."""
    try:
        from korealbert.flows.cli import app  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="korealbert")


if __name__ == "__main__":
    main()
