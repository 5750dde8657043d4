# One file, three images: `server` (Prefect alone), `data-worker` (corpus, vocabulary, examples, report) and
# `training-worker` (CUDA). Dependencies are layers of their own, below the code, so that a change of code rebuilds only the last.
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 DO_NOT_TRACK=1
RUN useradd --create-home --uid 10001 korealbert \
 && mkdir -p /app/store \
 && chown -R korealbert /app
WORKDIR /app

FROM base AS server
RUN pip install "prefect==3.8.8" "fastapi>=0.139,<0.151" "asyncpg>=0.30"
USER korealbert

# The dependencies of pyproject.toml without the project, so that this layer stays while only code changes.
FROM base AS dependencies
COPY pyproject.toml ./
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print('\n'.join([*p['dependencies'], *p['optional-dependencies']['crawl']]))" > /requirements.txt

FROM base AS project
COPY pyproject.toml README.md LICENSE MANIFEST.in /source/
COPY korealbert /source/korealbert
COPY flows /source/flows
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM base AS data-worker
COPY --from=dependencies /requirements.txt /requirements.txt
# An index of CPU builds of torch makes this image some gigabytes smaller.
ARG TORCH_INDEX=
RUN pip install ${TORCH_INDEX:+--extra-index-url ${TORCH_INDEX}} --requirement /requirements.txt
COPY --from=project /wheels /wheels
RUN pip install --no-deps /wheels/*.whl
COPY --chown=korealbert data_specs data_specs
COPY --chown=korealbert flows flows
COPY --chown=korealbert prefect.yaml prefect.toml ./
USER korealbert
CMD ["python", "-m", "flows.worker", "data"]

FROM base AS training-worker
COPY --from=dependencies /requirements.txt /requirements.txt
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/* \
 && pip install --requirement /requirements.txt
COPY --from=project /wheels /wheels
RUN pip install --no-deps /wheels/*.whl
COPY --chown=korealbert data_specs data_specs
COPY --chown=korealbert flows flows
COPY --chown=korealbert prefect.yaml prefect.toml ./
USER korealbert
CMD ["python", "-m", "flows.worker", "gpu"]
