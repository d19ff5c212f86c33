#!/bin/sh
# install-deps.sh - the one list of what building, testing and measuring need.
#
#   tools/install-deps.sh GROUP...          install what is missing of these groups
#   tools/install-deps.sh --check GROUP...  only say what is missing; exit status 1 if anything is
#
# Packages are those of Debian 12 and Ubuntu 24.04. Each line has a probe, which
# decides: what is there already, from wherever, is left alone, and elsewhere the
# list of missing things is still right.
set -u

# GROUP PACKAGE PROBE; PROBE: cmd:NAME, hdr:NAME or pc:NAME, alternatives separated by "|".
list='
build   gcc              cmd:gcc
build   libc6-dev        hdr:stdio.h
build   make             cmd:make
build   autoconf         cmd:autoconf
build   pkg-config       cmd:pkg-config
build   libucx-dev       pc:ucx|hdr:ucp/api/ucp.h
build   libpmix-dev      pc:pmix|hdr:pmix.h
build   uthash-dev       hdr:uthash.h
build   libopenblas-dev  pc:openblas|hdr:cblas.h
build   libjson-c-dev    pc:json-c|hdr:json-c/json.h
check   python3          cmd:python3
check   libcriterion-dev hdr:criterion/criterion.h
check   iproute2         cmd:ip
launch  openmpi-bin      cmd:mpirun.openmpi|cmd:mpirun
launch  slurm-client     cmd:srun
launch  slurmctld        cmd:slurmctld
launch  slurmd           cmd:slurmd
launch  munge            cmd:munged
ucx-new python3-pip      cmd:pip3
bench   python3          cmd:python3
bench   openmpi-bin      cmd:mpirun.openmpi
bench   libopenmpi-dev   cmd:mpicc.openmpi
bench   mpich            cmd:mpirun.mpich
bench   libmpich-dev     cmd:mpicc.mpich
bench   ucx-utils        cmd:ucx_perftest
bench   valgrind         cmd:valgrind
bench   libhwloc-dev     pc:hwloc|hdr:hwloc.h
docs    doxygen          cmd:doxygen
lint    clang-format-14  cmd:clang-format-14
lint    clang-tidy       cmd:clang-tidy
lint    cppcheck         cmd:cppcheck
lint    g++              cmd:g++
'

# Daemons live in sbin, which an ordinary user's PATH may lack.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

probe()
{
	case $1 in
	cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	hdr:*) echo "#include <${1#hdr:}>" | ${CC:-gcc} -E - >/dev/null 2>&1 ;;
	*)
		echo "install-deps.sh: bad probe $1" >&2
		exit 2
		;;
	esac
}

there()
{
	for alternative in $(echo "$1" | tr '|' ' '); do
		probe "$alternative" && return 0
	done
	return 1
}

# Sets packages, and prints one line for each missing thing when asked.
find_missing()
{
	packages=
	while read -r group package what; do
		case " $groups " in *" $group "*) ;; *) continue ;; esac
		case " $packages " in *" $package "*) continue ;; esac
		there "$what" && continue
		packages="$packages $package"
		[ "$1" = quiet ] && continue
		echo "  $(echo "$what" | sed 's/cmd:/command /g; s/hdr:/header /g
			s/pc:/pkg-config /g; s/|/, or /g')  (Debian, Ubuntu: $package)" >&2
	done <<EOF
$(echo "$list" | grep .)
EOF
	[ -n "$packages" ]
}

give_up()
{
	echo "$1; missing for \"$groups\":" >&2
	find_missing loud
	exit 1
}

# Packages of daemons would start them; tests start their own, so hold that back.
apt_install()
{
	policy=/usr/sbin/policy-rc.d
	if ! [ -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
		$root chmod 755 $policy
		trap '$root rm -f $policy' EXIT
		trap 'exit 1' HUP INT TERM
	fi
	# shellcheck disable=SC2086
	$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
		$packages </dev/null >&2
}

check=
[ "${1-}" = --check ] && check=1 && shift
groups="$*"
for g in $groups; do
	echo "$list" | grep -q "^$g " || {
		echo "install-deps.sh: no group is named $g" >&2
		exit 2
	}
done

find_missing quiet || exit 0
[ -n "$check" ] && give_up "\"make deps\" installs what is missing on Debian and Ubuntu"
command -v apt-get >/dev/null 2>&1 || give_up "No apt-get here, so install by hand"
root=
if [ "$(id -u)" != 0 ]; then
	root=sudo
	command -v sudo >/dev/null 2>&1 || give_up "Neither root nor sudo"
fi

echo "Installing:$packages" >&2
update()
{
	$root apt-get update -q </dev/null >&2 || give_up "apt-get update failed"
}

# Package lists that are there and fresh enough save the update; if they are not, the install fails.
if ! ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1; then
	update
	apt_install || give_up "apt-get install failed"
elif ! apt_install; then
	update
	apt_install || give_up "apt-get install failed"
fi
find_missing quiet && give_up "apt-get installed all, yet something is not found"
exit 0
