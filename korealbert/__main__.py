"""The command ``korealbert``, also ``python -m korealbert``."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is loading also ends it without a traceback."""
    try:
        from korealbert.flows.cli import app  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="korealbert")


if __name__ == "__main__":
    main()
