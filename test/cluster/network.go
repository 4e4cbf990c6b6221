package cluster

import "strings"

// networkCommands lay the node's network, inside its namespace. eth0 is one
// end of a pair whose other end stays in the node: the node's address must be
// on an interface that has a carrier. "world" is a namespace of its own, where
// everything goes that is for no pod and no service.
func networkCommands() [][]string {
	lines := `
ip link set lo up
ip link add eth0 type veth peer name eth0-peer
ip link set eth0-peer up
ip link set eth0 up
ip addr add ` + NodeIP + `/30 dev eth0
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
ip netns add world
ip link add world0 type veth peer name eth0 netns world
ip addr add 198.18.0.1/30 dev world0
ip link set world0 up
ip -n world link set lo up
ip -n world addr add 198.18.0.2/30 dev eth0
ip -n world link set eth0 up
ip -n world addr add ` + WorldIP + `/32 dev lo
ip -n world addr add ` + MetaIP + `/32 dev lo
ip -n world route add default via 198.18.0.1
ip route add default via 198.18.0.2`
	var commands [][]string
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		commands = append(commands, strings.Fields(line))
	}
	return commands
}
