#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs one training over the nodes of a Slurm job:   sbatch --nodes=4 examples/slurm.sh DATA RUN [flags of propane train]
# Resumes the run if it exists. Slurm sends USR1 before the time limit: the run writes its checkpoint as after Ctrl-C, and the job
# is queued again. LAUNCH: the command that starts the ranks ("mpirun" if Slurm has no PMIx); PROPANE: the propane command.
#SBATCH --job-name=propane
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
[ $# -ge 2 ] || { echo "slurm.sh DATA RUN [flags of propane train]" >&2; exit 2; }
data=$1 run=$2
shift 2
read -r -a launch <<< "${LAUNCH:-srun --mpi=pmix --kill-on-bad-exit=1}"
propane=${PROPANE:-propane}
resume=()
[ -e "$run/checkpoint.safetensors" ] && resume=(--resume)

requeue=no
stop() {
    requeue=yes
    kill -TERM "$job" 2> /dev/null # srun and mpirun pass it on to all ranks
}
"${launch[@]}" "$propane" train --data "$data" --run "$run" --threads "${SLURM_CPUS_PER_TASK:-0}" "${resume[@]}" "$@" &
job=$!
trap stop USR1
code=0
while kill -0 "$job" 2> /dev/null; do
    wait "$job"
    code=$?
done
[ $requeue = no ] && exit $code
[ -e "$run/checkpoint.safetensors" ] || { echo "the time was up before the first checkpoint" >&2; exit 1; }
[ -z "${SLURM_JOB_ID:-}" ] || scontrol requeue "$SLURM_JOB_ID"
