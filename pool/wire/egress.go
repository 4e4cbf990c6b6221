package wire

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Egress is what a copy may reach, by a proxy and by nothing else.
type Egress struct {
	// Tool names the grant, in logs and metrics.
	Tool string `json:"tool"`
	// Hosts are HOST:PORT, as ParseHosts gives them.
	Hosts []string `json:"hosts"`
}

// ProxyPort is where a copy with Egress finds its proxy, on 127.0.0.1.
const ProxyPort = 3128

// Environment is how programs learn of the proxy at that port of 127.0.0.1, in
// both spellings. What they serve to themselves goes past it, unless that is the
// name of a granted host. Without Egress there is nothing to learn.
func (e *Egress) Environment(port int) map[string]string {
	if e == nil {
		return nil
	}
	var own []string
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if !slices.ContainsFunc(e.Hosts, func(h string) bool { return strings.HasPrefix(strings.TrimPrefix(h, "["), name) }) {
			own = append(own, name)
		}
	}
	proxy := fmt.Sprintf("http://127.0.0.1:%d", port)
	env := map[string]string{}
	for name, value := range map[string]string{"http_proxy": proxy, "https_proxy": proxy, "no_proxy": strings.Join(own, ",")} {
		env[name], env[strings.ToUpper(name)] = value, value
	}
	return env
}

// hostFormat is a name of DNS with lower-case letters. A last label of digits
// would be a spelling of an address.
var hostFormat = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.?$`)

var addressLike = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)

// ParseHosts reads HOST or HOST:PORT, where HOST is a name or an address. A
// host without a port stands for ports 80 and 443.
func ParseHosts(text string) ([]string, error) {
	host, port := strings.TrimSpace(text), ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	host, err := ParseHost(host)
	if err != nil {
		return nil, err
	}
	if port == "" {
		return []string{net.JoinHostPort(host, "80"), net.JoinHostPort(host, "443")}, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is not HOST or HOST:PORT", text)
	}
	return []string{net.JoinHostPort(host, strconv.FormatUint(n, 10))}, nil
}

// ParseHost brings a name or an address into the one spelling that is compared.
func ParseHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", fmt.Errorf("%q names an interface of this machine", host)
		}
		return a.Unmap().String(), nil
	}
	host = strings.ToLower(host)
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(host) > 253 || !hostFormat.MatchString(host) || addressLike.MatchString(labels[len(labels)-1]) {
		return "", fmt.Errorf("%q is neither a host's name nor an address", host)
	}
	return strings.TrimSuffix(host, "."), nil
}
