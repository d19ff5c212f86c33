#!/bin/sh
# mpirun.sh -n N [options] PROGRAM [ARGS]: runs it under Open MPI's mpirun.
# Without arguments: a test, the programs of test/launch/programs.
here=$(dirname "$0")
[ $# -gt 0 ] || exec sh "$here/run" mpirun
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || { echo 'no mpirun here'; exit 77; }
"$mpirun" --version 2>&1 | grep -qE 'Open MPI|OpenRTE|PRRTE' || { echo "$mpirun is not Open MPI's"; exit 77; }
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
# shellcheck disable=SC2086
exec "$mpirun" $root --oversubscribe "$@"
