#!/bin/sh
# Runs the tests of memory limits and of shares of the processors where cgroups are of version 2, whatever this
# machine has: in Debian's User-mode Linux, a kernel that is a program of this
# one's, with this machine's files below it, which it cannot change. A controller
# belongs to one version for the whole of a kernel, so that no namespace would do.
# It needs root, for cgroups are root's there too, and Debian 12.
set -eu
cd "$(dirname "$0")/../.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/code-sandbox/uml
uml=$cache/usr/bin/linux.uml
if [ ! -x "$uml" ]; then
	mkdir -p "$cache"
	(cd "$cache" && apt-get download -q user-mode-linux && dpkg -x user-mode-linux_*.deb . && rm user-mode-linux_*.deb)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
go test -c -o "$work/local.test" ./pool/local
go test -c -o "$work/server.test" ./pool/runner/server
go test -c -o "$work/escape.test" ./test/escape
CGO_ENABLED=0 go build -o "$work/runner" ./cmd/runner
cat >"$work/init" <<EOF
#!/bin/sh
exec sh "$PWD/test/cgroup2/inside.sh" "$PWD" "$work"
EOF
# What the tests call for the runner has no cache to build it with there.
printf '#!/bin/sh\nexec cp "%s" "$3"\n' /mnt/runner >"$work/go"
chmod +x "$work/init" "$work/go"
chmod 755 "$work"
log=$work/log
timeout "${LIMIT:-900}" "$uml" root=/dev/root rootfstype=hostfs rootflags=/ ro mem=2048M init="$work/init" \
	con=null con0=null,fd:1 ssl=null quiet </dev/null 2>/dev/null | tee "$log"
grep -q '^all of it passed' "$log"
