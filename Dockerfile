FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 10001 korealbert && mkdir -p /app/store && chown -R korealbert /app
WORKDIR /app
COPY --chown=korealbert pyproject.toml README.md LICENSE ./
COPY --chown=korealbert korealbert korealbert
COPY --chown=korealbert flows flows
RUN pip install --no-cache-dir .
COPY --chown=korealbert data_specs data_specs
COPY --chown=korealbert prefect.yaml prefect.gpu.yaml prefect.toml ./
USER korealbert
