package doctor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// beyond is how far over a limit a program goes.
const beyond = 64 << 20

// isolate is what to change where nothing is limited.
const isolate = "run the service with isolation"

// memory takes more than there is.
func memory(ctx context.Context, s Service, l Limits) Row {
	row := promise("memory")
	if l.MemoryBytes <= 0 {
		row.open("no limit is in force", isolate)
		return row
	}
	res, err := s.Run(ctx, memoryProgram, []string{strconv.FormatInt(l.MemoryBytes+beyond, 10)})
	switch {
	case err != nil:
		row.untried(err)
	case res.Outcome == wire.OutOfMemory:
		row.protected("a program that takes more than %d MiB is ended", l.MemoryBytes>>20)
	case res.Outcome == wire.OK:
		row.open(fmt.Sprintf("a program held %d MiB, and the limit is %d MiB", (l.MemoryBytes+beyond)>>20, l.MemoryBytes>>20),
			"let the nodes' kubelets enforce memory limits of pods")
	default:
		row.open(ended(res), "the end should be out_of_memory: look at the node's memory and its eviction thresholds")
	}
	return row
}

func ended(res *wire.Result) string {
	return fmt.Sprintf("the program ended with %s: %s", res.Outcome, res.Reason)
}

// processes starts threads, which the kernel counts as it counts processes.
func processes(ctx context.Context, s Service, l Limits) Row {
	row := promise("number of processes")
	most := mostThreads
	if l.Processes > 0 {
		most = l.Processes + 64
	}
	const change = "set podPidsLimit in the configuration of the nodes' kubelets, such as 1024, or sandbox.userNamespace=true"
	var said struct {
		Started int
		Refused string
	}
	res, err := s.Run(ctx, processesProgram, []string{strconv.Itoa(most)})
	switch {
	case err != nil:
		row.untried(err)
	case res.Outcome == wire.ProcessLimit:
		row.protected("a program that starts more than it may is ended")
	case res.Outcome == wire.OutOfMemory:
		row.open(fmt.Sprintf("only its memory ended a program on its way to %d threads", most), change)
	default:
		if err := read(res, &said); err != nil {
			row.untried(err)
		} else if said.Refused == "" {
			row.open(fmt.Sprintf("a program had %d threads at once: podPidsLimit is missing, or no bound", said.Started), change)
		} else {
			row.protected("no more than %d threads can be started", said.Started)
		}
	}
	return row
}

// disk writes more than there is.
func disk(ctx context.Context, s Service, l Limits) Row {
	row := promise("disk")
	var said struct {
		Written int64
		Refused string
	}
	if l.DiskBytes <= 0 {
		row.open("no limit is in force", isolate)
		return row
	}
	res, err := s.Run(ctx, diskProgram, []string{strconv.FormatInt(l.DiskBytes+beyond, 10)})
	switch {
	case err != nil:
		row.untried(err)
	case res.Outcome == wire.DiskFull || res.Outcome == wire.OutOfMemory || res.Outcome == wire.Evicted:
		row.protected("a program that writes more than %d MiB is ended: %s", l.DiskBytes>>20, res.Outcome)
	default:
		if err := read(res, &said); err != nil {
			row.untried(err)
		} else if said.Refused == "" {
			row.open(fmt.Sprintf("a program wrote %d MiB, and the limit is %d MiB", said.Written>>20, l.DiskBytes>>20),
				"look at the volumes of pods in runs.namespace: /work must be an emptyDir in memory with a sizeLimit, which the kubelet enforces from Kubernetes 1.22 on")
		} else {
			row.protected("no more than %d MiB can be written", said.Written>>20)
		}
	}
	return row
}
