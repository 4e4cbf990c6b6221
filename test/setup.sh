#!/bin/sh
# Installs the Debian packages that are missing here: "run" for make run,
# "test" for make test. On another distribution, or without root, it says what
# is missing and goes on: what needs it will fail by name.
set -eu
case ${1:-test} in
run) packages="python3" ;;
test) packages="python3 python3-venv bubblewrap gcc libc6-dev curl procps" ;;
*) echo "setup.sh: run or test?" >&2; exit 2 ;;
esac
command -v dpkg-query >/dev/null 2>&1 || exit 0
missing=""
for p in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
  echo "setup.sh: not root: please install$missing" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 || {
  apt-get update -q >/dev/null
  apt-get install -y -q --no-install-recommends $missing >/dev/null
}
