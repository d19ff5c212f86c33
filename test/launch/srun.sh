#!/bin/sh
# srun.sh -n N [options] PROGRAM [ARGS]: runs it under a Slurm of its own, on two simulated nodes, n1 and n2.
# srun.sh --inside COMMAND [ARGS]: runs a command that calls srun.sh several times, in one such Slurm.
# Without arguments: a test, the programs of test/launch/programs.
#
# munged, slurmctld and two slurmd are started with all their files in a temporary folder and on free ports, and
# are gone when it returns, whatever happens. The status is the program's.
set -u
here=$(dirname "$0")
[ $# -gt 0 ] || exec sh "$here/run" srun
PATH=$PATH:/usr/sbin:/sbin

# srun spreads the ranks over both nodes, and starts more of them than there are CPUs.
srun_options='--mpi=pmix --overcommit'
if [ -n "${ORIEL_TEST_SLURM:-}" ]; then
	# shellcheck disable=SC2086
	exec srun $srun_options "$@"
fi
for tool in munged slurmctld slurmd srun sinfo python3; do
	command -v $tool >/dev/null || { echo "no $tool here"; exit 77; }
done

dir=$(mktemp -d /tmp/oriel-slurm.XXXXXX) || exit 1
started=
finish()
{
	status=$?
	trap '' INT TERM HUP
	trap - EXIT
	# Steps are processes of nobody; they know our configuration file.
	kill $started 2>/dev/null
	for round in 1 2 3 4 5 6 7 8 9 10; do
		left=$(grep -lzs "^SLURM_CONF=$dir/" /proc/[0-9]*/environ | sed 's|/proc/||; s|/.*||' | grep -vx $$)
		[ -n "$left" ] || break
		[ "$round" -lt 8 ] || kill -9 $left 2>/dev/null
		sleep 0.2
	done
	wait
	[ "$status" = 0 ] || [ -z "${SRUN_SH_LOGS:-}" ] || tail -n 30 "$dir"/*.log >&2
	rm -rf "$dir"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

host=$(hostname)
user=$(id -un)
ports=$(python3 -c '
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in held))') || exit 1
# shellcheck disable=SC2086
set -- $ports -- "$@"
cat >"$dir/slurm.conf" <<CONF
ClusterName=oriel
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
KillWait=2
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/ctld.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdSpoolDir=$dir/spool.%n
SlurmdPidFile=$dir/%n.pid
SlurmdLogFile=$dir/%n.log
TmpFS=$dir/tmp.%n
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
CONF
shift 4
mkdir "$dir/state" "$dir/spool.n1" "$dir/spool.n2" "$dir/tmp.n1" "$dir/tmp.n2"
(umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
export SLURM_CONF="$dir/slurm.conf"

start()
{
	"$@" >>"$dir/start.log" 2>&1 </dev/null &
	started="$started $!"
}
start munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
	--pid-file="$dir/munge.pid" --seed-file="$dir/munge.seed" --log-file="$dir/munge.log" --num-threads=2
start slurmctld -D -f "$SLURM_CONF"
start slurmd -D -f "$SLURM_CONF" -N n1
start slurmd -D -f "$SLURM_CONF" -N n2
tries=0
until [ "$(sinfo -h -o '%D %t' 2>/dev/null)" = '2 idle' ]; do
	tries=$((tries + 1))
	if [ $tries -gt 200 ]; then
		echo 'srun.sh: Slurm did not come up in 20 s; its logs:' >&2
		tail -n 20 "$dir"/*.log >&2
		exit 1
	fi
	sleep 0.1
done

export ORIEL_TEST_SLURM=1 SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2
# In the background, so that a signal ends us at once; with our own standard input all the same.
exec 3<&0
if [ "$1" = --inside ]; then
	shift
	"$@" <&3 3<&- &
else
	# shellcheck disable=SC2086
	srun $srun_options "$@" <&3 3<&- &
fi
started="$! $started"
wait $!
exit $?
