# One release of sglang with its own pins, for a GPU, beside the training side, and the GPU tier. From a clone:
#   docker build -f docker/gpu.Dockerfile --build-arg SGLANG=0.5.23 --build-arg SPECULATORS=0.9.0 -t draft-contracts:gpu .
#   docker run --rm --gpus all --ipc host draft-contracts:gpu
# CUDA's libraries come with torch; the driver is the host's. A compiler is there for kernels that are made when used.
FROM nvidia/cuda:13.0.1-cudnn-devel-ubuntu24.04@sha256:8b2705ea7a8653ad3451b46ab835eced92d77b44e671b9cf3ad4f95fbb2efe5e

ARG SGLANG=0.5.23
ARG SPECULATORS=0.9.0
# hadolint ignore=DL3064
ENV DEBIAN_FRONTEND=noninteractive \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    TOKENIZERS_PARALLELISM=false \
    CONTRACTS_CACHE=/cache \
    CONTRACTS_TRAINING_PYTHON=speculators==${SPECULATORS} \
    CONTRACTS_SERVING_PYTHON=sglang==${SGLANG} \
    PATH=/opt/venv/bin:${PATH}

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential git numactl python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/draft-contracts
COPY contracts/requirements contracts/requirements
RUN python3 -m venv /opt/venv && pip install -r contracts/requirements/runner.txt
COPY pyproject.toml README.md LICENSE ./
COPY contracts contracts
RUN pip install --no-deps . \
    && contracts provision --exact "sglang==${SGLANG}" \
    && contracts provision "speculators==${SPECULATORS}"

WORKDIR /work
CMD ["pytest", "--pyargs", "contracts", "-m", "contracts and gpu", "--require-sides", "-p", "no:cacheprovider"]
