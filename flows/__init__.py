"""Prefect flows: scheduling, retries, deployments and the UI around korealbert's stages; lost runs are in ``recovery.py``."""

import os

# Prefect reads these when it is imported, and would begin with a notice of its telemetry. Its workers and servers inherit them.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_PLUGINS_ENABLED", "false")  # bare_names.py is for the commands of Prefect.
