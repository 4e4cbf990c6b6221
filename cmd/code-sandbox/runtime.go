package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/code-sandbox/code-sandbox/toolproxy/hook"
)

// runtimePrefix begins the names of our folders for files at run time. The rest
// names the process, so that a later one can tell what is stale.
const runtimePrefix = "code-sandbox-hook-"

// layRuntime lays out the hook in a folder of its own, which any user may read:
// copies run as another user. It removes what killed services have left.
func layRuntime() (string, error) {
	base := os.TempDir()
	removeStaleRuntimes(base)
	folder, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-%d-", runtimePrefix, os.Getpid(), startTime(os.Getpid())))
	if err != nil {
		return "", fmt.Errorf("cannot make a folder for the tool-call hook: %w", err)
	}
	if err = os.Chmod(folder, 0o755); err == nil {
		err = hook.Lay(folder)
	}
	if err != nil {
		return "", errors.Join(err, removeRuntime(folder))
	}
	return folder, nil
}

func removeRuntime(folder string) error { return os.RemoveAll(folder) }

// removeStaleRuntimes removes folders of ours whose process is gone.
func removeStaleRuntimes(base string) {
	folders, _ := filepath.Glob(filepath.Join(base, runtimePrefix+"*")) // the pattern is good
	for _, folder := range folders {
		var pid int
		var started int64
		if _, err := fmt.Sscanf(filepath.Base(folder), runtimePrefix+"%d-%d-", &pid, &started); err != nil || startTime(pid) == started {
			continue
		}
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Geteuid() {
			_ = removeRuntime(folder) // tried again at the next start
		}
	}
}

// startTime tells a process from a later one with the same pid; 0 if there is none.
func startTime(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[19]), 10, 64)
	return n
}
