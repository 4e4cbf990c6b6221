package local

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killPasses = 50 // over the processes, while new ones are found
	deathBound = 5 * time.Second
)

// tree is the processes of one sandbox without isolation.
type tree struct {
	// leader is the interpreter, whose session the processes are in; 0 when its
	// pid may be another's by now. It is asked before each look.
	leader func() int
	// mark begins the value of bareMark in their environment.
	mark   string
	cgroup *cgroup // nil without
}

// process is one process of this machine, as /proc shows it.
type process struct {
	pid, parent, session int
	started              int64
	dead                 bool // but not yet waited for
	marked               bool // by its environment or cgroup
}

// family picks, of all processes, those of a sandbox that live: what is marked,
// what is in the leader's session, and what descends from any of these.
func family(all []process, leader int) []process {
	in := map[int]bool{}
	for _, p := range all {
		if p.marked || leader > 0 && (p.pid == leader || p.session == leader) {
			in[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && in[p.parent] {
				in[p.pid], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool {
		return !in[p.pid] || p.dead || p.pid <= 1 || p.pid == os.Getpid()
	})
}

// kill kills what there is, again while there are processes that it had not
// seen; it says whether any was there.
func (t *tree) kill() (any bool) {
	seen := map[process]bool{}
	for range killPasses {
		fresh := false
		leader := t.leader()
		for _, p := range family(t.look(), leader) {
			any = true
			if !seen[p] {
				seen[p], fresh = true, true
				p.kill()
			}
		}
		if !fresh {
			break
		}
	}
	return any
}

// end kills until nothing is left; false when it takes longer than limit.
func (t *tree) end(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); t.kill(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// kill kills the process, unless its pid has become another's.
func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	if startTime(p.pid) == p.started {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// look reads all processes.
func (t *tree) look() []process {
	mark := []byte(bareMark + "=" + t.mark)
	within := t.cgroupMembers()
	var all []process
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		stat, err := os.ReadFile(folder + "/stat")
		if err != nil {
			continue // it has ended
		}
		p, ok := parseStat(stat)
		if !ok {
			continue
		}
		p.marked = within[p.pid] || !p.dead && hasVariable(folder+"/environ", mark)
		all = append(all, p)
	}
	return all
}

// parseStat reads a line of /proc/PID/stat.
func parseStat(line []byte) (process, bool) {
	name := bytes.LastIndexByte(line, ')') // which may hold anything
	if name < 0 {
		return process{}, false
	}
	var p process
	fields := bytes.Fields(line[name+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	var errs [4]error
	var pid []byte
	pid, _, _ = bytes.Cut(line, []byte(" "))
	p.pid, errs[0] = strconv.Atoi(string(pid))
	p.parent, errs[1] = strconv.Atoi(string(fields[1]))
	p.session, errs[2] = strconv.Atoi(string(fields[3]))
	p.started, errs[3] = strconv.ParseInt(string(fields[19]), 10, 64)
	p.dead = bytes.ContainsAny(fields[0], "ZX")
	return p, errs == [4]error{}
}

// hasVariable says whether a file of NUL-separated variables has one that
// begins with mark.
func hasVariable(file string, mark []byte) bool {
	b, err := os.ReadFile(file)
	return err == nil && (bytes.HasPrefix(b, mark) || bytes.Contains(b, append([]byte{0}, mark...)))
}

func (t *tree) cgroupMembers() map[int]bool {
	members := map[int]bool{}
	if t.cgroup == nil {
		return members
	}
	b, _ := os.ReadFile(filepath.Join(t.cgroup.dir, "cgroup.procs"))
	for word := range bytes.FieldsSeq(b) {
		if pid, err := strconv.Atoi(string(word)); err == nil {
			members[pid] = true
		}
	}
	return members
}
