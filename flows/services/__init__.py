"""The servers around a flow: Prefect's, PostgreSQL, and the installation of all of them on one machine."""
