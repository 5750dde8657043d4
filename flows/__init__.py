"""Prefect flows: scheduling, retries, deployments and the UI around korealbert's stages."""

import os

# Prefect reads these on import; without them it prints a telemetry notice. Its workers and servers inherit them.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_PLUGINS_ENABLED", "false")  # bare_names.py is only for Prefect's commands.
