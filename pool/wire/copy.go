package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
)

// Copy says how a copy of an agent's program is made ready for calls of one of
// its functions. It does not change once it is used.
type Copy struct {
	// Container is the one of the agent's pod that the program runs in; empty is
	// its only one, and on one machine there is none.
	Container string `json:"container,omitempty"`
	// Python is the agent's interpreter, an absolute path, and Flags what it
	// was started with.
	Python string   `json:"python"`
	Flags  []string `json:"flags"`
	// Prefixes are the folders that the interpreter and its packages live in.
	Prefixes []string `json:"prefixes"`
	// Program are the folders and files of the agent's own code: its working
	// directory, the main program's folder, what sys.path names.
	Program []string `json:"program"`
	// Env is the whole environment that the interpreter is started with.
	Env map[string]string `json:"env"`
	// Boot is what of the boot record the copy needs, Target the function. Both are
	// JSON objects for the copy's own program; of Boot, Folders are read as well, and
	// a runner adds to its "env" what only the image has.
	Boot   json.RawMessage `json:"boot"`
	Target json.RawMessage `json:"target"`
	// Egress is what the copy may reach; nil is nothing.
	Egress *Egress `json:"egress,omitempty"`

	once sync.Once
	key  string
}

// Folders are the working folder and the main program's file, as the boot record
// names them: either may be empty, and neither is checked. An error says that the
// record cannot be read; both are empty then.
func (c *Copy) Folders() (cwd, main string, err error) {
	var boot struct {
		Cwd  string `json:"cwd"`
		Main struct {
			Path string `json:"path"`
		} `json:"main"`
	}
	if err := json.Unmarshal(c.Boot, &boot); err != nil {
		return "", "", fmt.Errorf("cannot read the boot record: %w", err)
	}
	return boot.Cwd, boot.Main.Path, nil
}

// Key is a hash over all of the copy.
func (c *Copy) Key() string {
	c.once.Do(func() {
		b, err := json.Marshal(c)
		if err != nil {
			panic("BUG: a copy is not JSON: " + err.Error())
		}
		sum := sha256.Sum256(b)
		c.key = hex.EncodeToString(sum[:])
	})
	return c.key
}
