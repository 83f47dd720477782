# Both libraries in one environment without a GPU, and the contracts. From a clone:
#   docker build -f docker/cpu.Dockerfile -t draft-contracts:cpu .
#   docker run --rm draft-contracts:cpu
# For packages from elsewhere: --build-arg PIP_EXTRA_INDEX_URL=... ; your draft: -v "$PWD/my-draft:/draft:ro" ...
#   docker run --rm -v "$PWD/my-draft:/draft:ro" draft-contracts:cpu contracts check /draft
FROM python:3.11-slim-bookworm@sha256:528257d48c1da0dcecc2e725d1ae34498d60c965f1241e39cd6a85a8859bdf84

ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
# hadolint ignore=DL3064
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    TOKENIZERS_PARALLELISM=false \
    CONTRACTS_CACHE=/cache

WORKDIR /opt/draft-contracts
COPY contracts/requirements contracts/requirements
RUN PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL}" pip install -r contracts/requirements/torch.txt \
    && pip install --no-deps -r contracts/requirements/cpu.txt
COPY pyproject.toml README.md LICENSE ./
COPY contracts contracts
RUN pip install --no-deps . \
    && useradd --create-home --uid 1000 contracts \
    && install --directory --owner contracts /cache

USER 1000
WORKDIR /home/contracts
VOLUME /cache
CMD ["pytest", "--pyargs", "contracts", "-m", "contracts", "-p", "no:cacheprovider"]
