# Three images: `server` (Prefect and one file of ours), `data-worker` (corpus, vocabulary, examples, report) and `training-worker`
# (CUDA). Dependencies have layers of their own, below the code, so that a change of code rebuilds only the last layers. They are
# installed from locks/ (written by `make lock`) by hash; torch, whose builds differ by platform, by version.
ARG PYTHON=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

FROM ${PYTHON} AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 DO_NOT_TRACK=1
RUN useradd --create-home --uid 10001 korealbert \
 && mkdir -p /app/store \
 && chown -R korealbert /app
WORKDIR /app

FROM base AS server
COPY locks/server.txt /locks/
RUN pip install --no-deps --require-hashes --requirement /locks/server.txt
COPY flows/services/server.py ./
USER korealbert
CMD ["python", "server.py", "--host", "0.0.0.0"]

# The dependencies without the project: a change of code does not rebuild this layer.
FROM base AS dependencies
COPY locks/build.txt locks/worker.txt locks/torch.txt /locks/
RUN pip install --no-deps --require-hashes --requirement /locks/build.txt \
 && pip install --no-deps --require-hashes --no-build-isolation --requirement /locks/worker.txt

FROM dependencies AS project
COPY pyproject.toml README.md LICENSE MANIFEST.in /source/
COPY korealbert /source/korealbert
COPY data_specs /source/data_specs
COPY flows /source/flows
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels /source

FROM dependencies AS data-worker
# An index of CPU builds of torch makes this image some gigabytes smaller.
ARG TORCH_INDEX=
RUN pip install ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} --requirement /locks/torch.txt
COPY --from=project /wheels /wheels
RUN pip install --no-deps /wheels/*.whl
COPY --chown=korealbert data_specs data_specs
COPY --chown=korealbert flows flows
COPY --chown=korealbert prefect.yaml prefect.toml ./
USER korealbert
CMD ["python", "-m", "korealbert.flows.worker", "data"]

FROM dependencies AS training-worker
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
RUN pip install --requirement /locks/torch.txt
COPY --from=project /wheels /wheels
RUN pip install --no-deps /wheels/*.whl
COPY --chown=korealbert data_specs data_specs
COPY --chown=korealbert flows flows
COPY --chown=korealbert prefect.yaml prefect.toml ./
USER korealbert
CMD ["python", "-m", "korealbert.flows.worker", "gpu"]
