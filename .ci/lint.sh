# The quick checks, quickest first; stops at the first that finds something. $1: folder of programs.
set -eu
bin="$1"
# Only to load the settings: nothing is signed and no database is asked for its answer.
export GANGWAY_SECRET_KEY="${GANGWAY_SECRET_KEY:-for-checks-only}"

step() { printf '== %s\n' "$*"; "$@"; }

step "$bin/ruff" check .
step "$bin/ruff" format --check .
step "$bin/lint-imports"
step "$bin/mypy" portal scheduling nodes
step "$bin/python" -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
