#!/usr/bin/env bash
# A plan on a cluster with Slurm: N training sides and M serving sides, spread over machines that share a folder.
#   contracts ci plan --pairs all > plan.json && examples/cluster/slurm.sh plan.json SHARED_FOLDER
# For the GPU tier: contracts ci plan --tier gpu ..., and SBATCH_GRES=gpu:1 in the environment.
set -euo pipefail
plan=$(realpath "${1:?a plan, as contracts ci plan prints it}")
shared=$(realpath "${2:?a folder that all machines share}")
export CONTRACTS_CACHE=$shared/cache
last() { python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["sides"][sys.argv[2]]) - 1)' "$plan" "$1"; }

training=$(sbatch --parsable --array="0-$(last training)" --cpus-per-task=2 --mem=16G --time=1:00:00 \
    --wrap "contracts ci run $plan --stage training --index \$SLURM_ARRAY_TASK_ID")
serving=$(sbatch --parsable --array="0-$(last serving)" --cpus-per-task=2 --mem=16G --time=2:00:00 \
    --dependency="afterany:${training%%;*}" \
    --wrap "contracts ci run $plan --stage serving --index \$SLURM_ARRAY_TASK_ID -o $shared/part-\$SLURM_ARRAY_JOB_ID-\$SLURM_ARRAY_TASK_ID")
sbatch --dependency="afterany:${serving%%;*}" --cpus-per-task=1 --mem=4G --time=0:10:00 \
    --wrap "contracts matrix --merge $shared/part-${serving%%;*}-* -o $shared/page"
