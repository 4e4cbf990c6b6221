package egress

import (
	"fmt"
	"net/netip"
)

// closed are the addresses that a granted name may not lead to, with the reason:
// the first row that has an address counts.
// A grant of the address itself opens those that are not never.
var closed = []struct {
	prefix netip.Prefix
	never  bool
	what   string
}{
	{netip.MustParsePrefix("169.254.0.0/16"), true, "link-local, where clouds serve credentials"},
	{netip.MustParsePrefix("fe80::/10"), true, "link-local"},
	{netip.MustParsePrefix("fd00:ec2::/32"), true, "where a cloud serves credentials"},
	{netip.MustParsePrefix("100.100.100.200/32"), true, "where a cloud serves credentials"},
	{netip.MustParsePrefix("168.63.129.16/32"), true, "where a cloud serves credentials"},
	{netip.MustParsePrefix("224.0.0.0/4"), true, "multicast"},
	{netip.MustParsePrefix("ff00::/8"), true, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), true, "reserved"},
	{netip.MustParsePrefix("0.0.0.0/8"), true, "this machine"},
	{netip.MustParsePrefix("::/128"), true, "this machine"},
	{netip.MustParsePrefix("127.0.0.0/8"), false, "this machine"},
	{netip.MustParsePrefix("::1/128"), false, "this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), false, "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), false, "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), false, "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), false, "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), false, "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), false, "private"},
	{netip.MustParsePrefix("fc00::/7"), false, "private"},
	{netip.MustParsePrefix("fec0::/10"), false, "private"},
	// What carries another address inside is judged by none of the rows above.
	{netip.MustParsePrefix("::/96"), true, "an old spelling of another address"},
	{netip.MustParsePrefix("64:ff9b::/96"), true, "a translation of another address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), true, "a translation of another address"},
	{netip.MustParsePrefix("2002::/16"), true, "a translation of another address"},
	{netip.MustParsePrefix("2001::/32"), true, "a translation of another address"},
}

// Address says why nothing may be sent to an address; nil when it may. named
// says that a grant names the address itself; own are this machine's addresses.
func Address(a netip.Addr, named bool, own []netip.Addr) error {
	a = a.Unmap()
	for _, row := range closed {
		if row.prefix.Contains(a) {
			if named && !row.never {
				return nil
			}
			return fmt.Errorf("%s is %s", a, row.what)
		}
	}
	if named {
		return nil
	}
	for _, mine := range own {
		if mine.Unmap() == a {
			return fmt.Errorf("%s is this machine", a)
		}
	}
	return nil
}
