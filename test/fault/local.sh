#!/bin/bash
# test/fault/local.sh [--only TEXT]: kills or stops a rank of the node on the paths of shared memory; see
# test/ranks/victim.c. One line a run, ok, FAIL or skip; the last is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
only='' passed=0 failed=0 skipped=0
[ "${1-}" = --only ] && only=$2
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

if ! [ -x "$build/tools/orielrun" ]; then
	echo "skip test/fault/local.sh: this build has no orielrun"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

# death PATH HOW OP RANKS [ARGS...]: all but the killed rank must come to their end.
death()
{
	local path=$1 how=$2 op=$3 n=$4 transports=self,direct,cma ends
	shift 4
	local what="local $path $how $op -n $n${1:+ $*}"
	[[ -z $only || $what == *$only* ]] || return
	[ "$path" = staged ] && transports=self,direct,staged
	[ "$path" = direct ] || set -- --user "$@"
	timeout 40 "$build/tools/orielrun" -n "$n" --kill-on-failure=no \
		env ORIEL_PEER_TIMEOUT=1s ORIEL_TRANSPORTS=$transports \
		"$build/test/ranks/victim" --limit 30 --timeout 1000 --how "$how" --op "$op" "$@" >"$out" 2>&1 </dev/null
	ends=$(grep -c '^reached the end$' "$out")
	if [ "$how" = continue ]; then n=$((n + 1)); fi
	if [ "$ends" = $((n - 1)) ]; then
		echo "ok   $what ($(sed -n 's/.*told after \([0-9]* ms\).*/\1/p' "$out" | paste -sd' '))"
		passed=$((passed + 1))
	else
		echo "FAIL $what"
		sed 's/^/     | /' "$out"
		failed=$((failed + 1))
	fi
}

for how in kill stop; do
	for op in wait wait_from wait_any wait_all barrier allgather allgather_big win_create win_free dup split; do
		death direct $how $op 3
	done
	for op in barrier win_create win_free wait_from; do
		death direct $how $op 3 --late
	done
	for op in flush stream get req atomic accumulate; do
		death staged $how $op 3
	done
	for op in flush stream get atomic accumulate win_free wait; do
		death cma $how $op 3
	done
	death direct $how barrier 2
	death staged $how flush 2
done
for op in barrier wait_from flush win_create win_free; do
	death direct continue $op 3
done
death cma continue atomic 3
death staged continue get 3

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
