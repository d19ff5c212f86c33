#!/bin/bash
# test/fault/collectives.sh [--only TEXT] [--full]: kills or stops a rank at steps of every collective; see
# test/ranks/coll_kill.c. One line a run, ok, FAIL or skip; the last is "N passed, N failed, N skipped".
# SEED (today's by default) draws what is killed, where, and how the others call; --full: every step.
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
seed=${SEED:-$(date +%Y%m%d)}
only='' full='' passed=0 failed=0
while [ $# -gt 0 ]; do
	case $1 in
	--only) only=$2 && shift 2 ;;
	--full) full=--full && shift ;;
	*) echo "usage: $0 [--only TEXT] [--full]" >&2 && exit 2 ;;
	esac
done
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

if ! [ -x "$BUILD/tools/orielrun" ]; then
	echo "skip test/fault/collectives.sh: this build has no orielrun"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

# deaths ENVIRONMENT ARGS...
deaths()
{
	local env=$1 what
	shift
	what="collectives ${env:-direct} $* --seed $seed"
	[[ -z $only || $what == *$only* ]] || return
	# shellcheck disable=SC2086 # no words are none
	if timeout 7200 env $env "$BUILD/test/ranks/coll_kill" --limit 7000 --seed "$seed" $full "$@" \
		>"$out" 2>&1 </dev/null; then
		echo "ok   $what ($(sed -n 's/.* \([0-9]* jobs\) .*/\1/p' "$out"))"
		passed=$((passed + 1))
	else
		echo "FAIL $what"
		tail -n 200 "$out" | sed 's/^/     | /'
		failed=$((failed + 1))
	fi
}

deaths "" --ranks 4 --samples 2
deaths "" --ranks 3 --samples 1
deaths ORIEL_TRANSPORTS=self,direct,staged --ranks 4 --jobs 40
deaths ORIEL_TRANSPORTS=self,direct,cma --ranks 4 --jobs 40
if grep -q '^HAVE_UCX := *.' config.mk; then
	deaths ORIEL_NODE_SPLIT=1 --ranks 4 --jobs 40
	deaths ORIEL_NODE_SPLIT=2 --ranks 4 --jobs 40
fi
full=''
deaths "" --stop --ranks 4 --jobs 10
deaths "" --timeout --ranks 4 --jobs 10

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
