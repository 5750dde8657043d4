"""Prefect flows: scheduling, retries, deployments and the UI around korealbert's stages."""
