// Package node is what the test cluster's node is, seen from inside: the first
// process of a new pid, mount and network namespace. It lays the mounts and
// the network, starts the daemons, starts again those that end, reaps, and
// passes connections from the machine to addresses in the node.
package node

import (
	"encoding/json"
	"fmt"
	"io"
)

// Folders of the node. They are the same for every cluster, whatever folders
// of the machine stand behind them, so that no configuration knows the latter.
const (
	Home  = "/run/bed"
	Work  = Home + "/work"  // state, logs, configuration
	Bin   = Home + "/bin"   // the programs
	Store = Home + "/store" // images that were built
)

// A Plan is all that the node's first process is told: it decides nothing.
type Plan struct {
	Hostname string
	Folders  map[string]string // folder in the node to folder of the machine
	Shown    map[string]string // file below /proc/sys to what its reader is to see
	Empty    []string          // files that are to be read as empty
	Network  [][]string        // commands that lay the network
	Daemons  []Daemon
	Relays   []string // address in the node for each listener handed over; "" for SOCKS
	Resolver string   // name server for SOCKS
	Ready    []Ready
}

// Ready is something that daemons wait for.
type Ready struct {
	Name string
	URL  string // answers 200, or
	Unix string // a socket that accepts
	CA   string // file, for an https URL
}

// A Daemon runs for as long as the node does: it is started again when it ends.
type Daemon struct {
	Name  string
	After []string // names of Ready
	Args  []string
}

// ReadPlan reads what WriteTo wrote. At the end of the stream without a plan
// whoever was to write it has died.
func ReadPlan(from io.Reader) (Plan, error) {
	var p Plan
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("cannot read the plan: %w", err)
	}
	return p, nil
}
