package local

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The kernel that counts processes per user namespace, on which the bound on
// processes rests.
const leastMajor, leastMinor = 5, 14

func checkKernel() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("cannot ask the kernel its version: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("cannot understand the kernel's version %q: %w", release, err)
	}
	if major < leastMajor || major == leastMajor && minor < leastMinor {
		return fmt.Errorf("this machine's kernel is %s; sandboxes need %d.%d or newer, which bounds processes per sandbox",
			release, leastMajor, leastMinor)
	}
	return nil
}

// mayMount says whether this process has root's right to make mounts; without
// it, sandboxes are made in a user namespace.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
