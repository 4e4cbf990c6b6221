package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// seen is what look.py prints.
type seen struct {
	Tokens, Writable []string
	UIDMap           [][3]int64 `json:"uid_map"`
	Resolvers        []string
	Names            map[string]any // addresses, or why there are none
}

// inside are the rows about what a program finds in its sandbox.
func (o Options) inside(ctx context.Context, l Limits) []Row {
	token, outside, names := promise("service account token"), promise("writing outside /work and /tmp"), promise("name lookups")
	nodeLocal, users := promise("node-local resolver"), Row{Name: "user namespace"}
	var args []string
	if o.Lookup != "" {
		args = []string{o.Lookup}
	}
	var s seen
	if err := ask(ctx, o.Service, lookProgram, args, &s); err != nil {
		rows := []Row{token, outside, names, nodeLocal, users}
		for i := range rows {
			rows[i].untried(err)
		}
		return rows
	}
	if token.protected("there is none, and no variable of the cluster's or of ours"); len(s.Tokens) > 0 {
		token.open("a program reads "+some(s.Tokens), "find what adds it to pods in runs.namespace: a webhook or an admission policy; exclude that namespace from it")
	}
	if outside.protected("nothing else can be written to"); len(s.Writable) > 0 {
		outside.open("a program writes to "+some(s.Writable), "find what adds a volume, or takes readOnlyRootFilesystem from pods in runs.namespace")
	}
	o.lookups(&names, s, l)
	o.resolver(&nodeLocal, s, l)
	s.users(&users)
	return []Row{token, outside, names, nodeLocal, users}
}

// some names the first of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// found says whether the sandbox found the name.
func (s seen) found(name string) bool {
	addresses, ok := s.Names[name].([]any)
	return ok && len(addresses) > 0
}

// lookups holds what a sandbox finds against what it is meant to.
func (o Options) lookups(row *Row, s seen, l Limits) {
	switch {
	case o.Lookup == "":
		row.none("doctor itself finds no name; name one that it should with --lookup")
	case l.Network == "none" && s.found(o.Lookup):
		row.open(fmt.Sprintf("a program finds %s, though sandbox.dns is none", o.Lookup), "look which NetworkPolicy in runs.namespace lets sandboxes reach a resolver")
	case l.Network == "none":
		row.protected("none is answered, as sandbox.dns=none says")
	case s.found(o.Lookup):
		row.protected("%s is found", o.Lookup)
	default:
		row.open(fmt.Sprintf("%s is not found: %v; the resolvers are %s", o.Lookup, s.Names[o.Lookup], strings.Join(s.Resolvers, ", ")),
			"let network.dns.namespace, labels and ports name the cluster's resolvers, or set sandbox.dns=none")
	}
}

// resolver is about resolvers on the nodes themselves: no policy that selects
// pods lets anybody reach them.
func (o Options) resolver(row *Row, s seen, l Limits) {
	all := slices.Concat(s.Resolvers, o.Resolvers)
	i := slices.IndexFunc(all, linkLocal)
	switch {
	case l.Network == "none":
		row.none("sandbox.dns is none")
	case i < 0:
		row.none("no resolver that pods are given is on their node: %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ", "))
	case o.Lookup == "":
		row.none("doctor itself finds no name")
	case s.found(o.Lookup):
		row.protected("%s is configured: lookups are answered", all[i])
	default:
		row.open(fmt.Sprintf("the cluster's resolver %s is on the node, and lookups of sandboxes are not answered", all[i]),
			fmt.Sprintf("set network.dns.addresses={%s/%d} of both charts, and sandbox.nameServers={%s}", all[i], bits(all[i]), all[i]))
	}
}

func linkLocal(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLinkLocalUnicast()
}

func bits(address string) int {
	a, err := netip.ParseAddr(address)
	if err != nil {
		panic("BUG: " + address + " was an address: " + err.Error())
	}
	return a.BitLen()
}

// everyUser is how many ids there are: a map of all of them is no namespace.
const everyUser = 1<<32 - 1

// users says whether the sandbox's user is somebody on the node.
func (s seen) users(row *Row) {
	switch {
	case len(s.UIDMap) == 0:
		row.untried(fmt.Errorf("the program says nothing of its user namespace"))
	case len(s.UIDMap) == 1 && s.UIDMap[0] == [3]int64{0, 0, everyUser}:
		row.open("the sandbox's user has the same id on the node", "set sandbox.userNamespace=true where nodes have user namespaces")
	default:
		row.protected("the sandbox's user is nobody on the node")
	}
}
