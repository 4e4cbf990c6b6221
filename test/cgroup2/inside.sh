# The first process of the kernel that run.sh starts: inside.sh SOURCE WORK.
exec >/dev/console 2>&1 </dev/null
export PATH=/mnt:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount --bind "$2" /mnt # its folder is hidden by the next, and the source's may be
mount --bind "$1" /srv
mount -t tmpfs tmp /tmp
chmod 1777 /tmp
mount -t tmpfs run /run
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
ip link set lo up
# As systemd has it: sessions are below, and the top hands controllers on.
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +cpu +memory +pids >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/user.slice/session
echo $$ >/sys/fs/cgroup/user.slice/session/cgroup.procs
echo "Linux $(uname -r), $(cat /proc/self/cgroup), controllers $(cat /sys/fs/cgroup/cgroup.controllers)"

failed=0
# run FOLDER PROGRAM TESTS; what they said stays in /tmp/said.
run() {
	cd "/srv/$1" && "/mnt/$2" -test.v -test.run "^($3)\$" >/tmp/said 2>&1 || failed=1
	cat /tmp/said
}
# Here all that they are about is there.
tried() { ! grep 'nothing to test' /tmp/said || failed=1; }
run pool/local local.test 'TestCgroupsAreUsedAgain|TestEverySandboxHasItsShare|TestNoCPUCgroup|TestSharesInTheHierarchyOfMemory|TestStaleCgroups|TestLivingCgroups|TestMemory'
tried
run test/escape escape.test 'TestShares'
tried
# Where the top hands memory on, and no processors.
echo -cpu >/sys/fs/cgroup/cgroup.subtree_control
run pool/local local.test 'TestCgroupsAreUsedAgain|TestSharesAreLeftOut|TestMemory'
run pool/local local.test 'TestEverySandboxHasItsShare'
grep -q 'nothing to test: the processors are divided by niceness' /tmp/said || failed=1
run pool/runner/server server.test 'TestOutOfMemory|TestFindEvents|TestOOMKills'
left=$(find /sys/fs/cgroup -mindepth 1 -type d ! -path '/sys/fs/cgroup/user.slice*')
[ -z "$left" ] || { echo "cgroups are left: $left"; failed=1; }
[ $failed = 1 ] || echo "all of it passed"
halt -f
