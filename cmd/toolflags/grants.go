package toolflags

import (
	"strings"

	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// Grants are TOOL=HOST[:PORT][,HOST...], separated by spaces.
type Grants []toolproxy.Grant

func (g Grants) String() string {
	words := make([]string, 0, len(g))
	for _, one := range g {
		words = append(words, one.Tool+"="+strings.Join(one.Hosts, ","))
	}
	return strings.Join(words, " ")
}

// opened is the flag of grants, which can be repeated.
type opened struct{ o *Options }

// Set implements flag.Value.
func (f *opened) Set(text string) error {
	for word := range strings.FieldsSeq(text) {
		grant, err := toolproxy.ParseGrant(word)
		if err != nil {
			return err
		}
		if f.o.Open != nil {
			if err := f.o.Open(grant); err != nil {
				return err
			}
		}
		f.o.Grants = append(f.o.Grants, grant)
	}
	return nil
}

// String implements flag.Value. The flag package asks it of an empty one, too.
func (f *opened) String() string {
	if f.o == nil {
		return ""
	}
	return f.o.Grants.String()
}
