#!/usr/bin/env bash
# A search on the nodes of a SLURM job: sbatch deploy/slurm.sh --trials 200 --space full
# Submit it from the repository, which every node must share; words after the file's name go to foxtune.
# Submitted again, it goes on with the study. See docs/cluster.md.
#SBATCH --job-name=foxtune
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
set -euo pipefail

study="${FOXTUNE_STUDY:-slurm}"
runs="${FOXTUNE_RUNS:-$SLURM_SUBMIT_DIR/runs}"
cd "$SLURM_SUBMIT_DIR"
# shellcheck disable=SC1091
. "${FOXTUNE_VENV:-.venv}/bin/activate"

# The first node is the head. A port per job, so that two jobs on one node do not meet.
head="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
address="$head:$((20000 + SLURM_JOB_ID % 20000))"

# Every node gets the token of this job; without it anyone on the network could run code here.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN="$(python -c 'import secrets; print(secrets.token_hex(32))')"
export RAY_AUTH_TOKEN

if [ -e "$runs/$study/search.json" ]; then
  words=(resume "$study" --runs "$runs")
else
  words=(tune --study "$study" --set "runs=$runs" --storage "journal:$runs/$study.log")
fi

# Ray's program starts the cluster on all nodes, runs the search on the head, and stops the cluster after it.
exec srun --kill-on-bad-exit=1 ray symmetric-run \
  --address "$address" --min-nodes "$SLURM_NNODES" --num-cpus "$SLURM_CPUS_PER_TASK" --disable-usage-stats \
  -- python -m hpo "${words[@]}" --address "$address" "$@"
