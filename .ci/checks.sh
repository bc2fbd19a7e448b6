# What `make test` runs: the quick checks, then the tests. $1: folder of programs.
# GANGWAY_TEST_REQUIRE_ALL=1 turns every skip into a failure.
set -eu
sh .ci/lint.sh "$1"
printf '== %s\n' pytest
exec "$1/python" -m pytest -q
