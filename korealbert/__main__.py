"""``python -m korealbert`` is the command ``korealbert``."""

from flows.cli import app

if __name__ == "__main__":
    app(prog_name="korealbert")
