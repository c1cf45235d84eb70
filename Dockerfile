# One image for CPU and GPU (docs/clusters.md). Without a command it runs `make run`.
#
#     docker build --tag simulmt .
#     docker run --rm --volume "$PWD/runs:/simulmt/runs" simulmt
#
# Build arguments:
#   PYTHON               the version of Python, 3.11 or newer
#   PIP_EXTRA_INDEX_URL  another package index, such as PyTorch's for the CPU: its torch has no CUDA
#                        libraries, so the image is several gigabytes smaller
ARG PYTHON=3.11
FROM python:${PYTHON}-slim-bookworm

# Triton and torch.compile call a C compiler; a run records the commit that git names.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential git \
    && rm -rf /var/lib/apt/lists/*

ARG PIP_EXTRA_INDEX_URL=
WORKDIR /simulmt
COPY . .
RUN PIP_NO_CACHE_DIR=1 make setup

# Any user may start the image: programs write to the current folder, and their caches to HOME.
RUN chmod a+rwx . && git config --system --add safe.directory /simulmt
ENV PATH=/simulmt/.venv/bin:$PATH HOME=/tmp
CMD ["make", "run"]
