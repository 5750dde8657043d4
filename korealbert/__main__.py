"""``python -m korealbert`` is the command ``korealbert``."""

from korealbert.flows.cli import app

if __name__ == "__main__":
    app(prog_name="korealbert")
