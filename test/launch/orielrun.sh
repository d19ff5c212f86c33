#!/bin/sh
# orielrun.sh -n N [options] PROGRAM [ARGS]: runs it under orielrun.
# Without arguments: a test, the programs of test/launch/programs.
here=$(dirname "$0")
[ $# -gt 0 ] || exec sh "$here/run" orielrun
orielrun=${BUILD:-build}/tools/orielrun
[ -x "$orielrun" ] || { echo 'this build has no orielrun'; exit 77; }
exec "$orielrun" "$@"
