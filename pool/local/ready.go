package local

import (
	"encoding/json"
	"fmt"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// maxWord is more than the first word of a zygote may have. Each end of its socket
// asks for a buffer as large; of that a kernel makes twice as much, or what it lets
// a service without rights have. What comes as long or longer is refused.
const maxWord = 1 << 20

// readyWord is what a zygote says once it has its configuration.
type readyWord struct {
	Proc  bool     `json:"proc"`
	Live  []string `json:"live"`
	Error string   `json:"error"`
	// Module is set when this one cannot be imported, Folders when there are so
	// many in Live that they cannot be told.
	Module  string `json:"module"`
	Folders int    `json:"folders"`
}

// ready waits for a zygote's first word. It is read whole or not at all.
func (z *zygote) ready() (word readyWord, err error) {
	buf := make([]byte, maxWord)
	n, err := z.channel.Read(buf)
	switch {
	case err != nil || n == 0:
		return word, z.why("the zygote did not get ready", err)
	case n == len(buf):
		return word, fmt.Errorf("cannot understand the zygote: its first word has more than %d bytes", maxWord)
	}
	if err := json.Unmarshal(buf[:n], &word); err != nil {
		return word, fmt.Errorf("cannot understand the zygote: %w", err)
	}
	switch {
	case word.Module != "":
		return word, &ImportError{Module: word.Module, Cause: word.Error}
	case word.Folders > 0:
		return word, api.Errorf(api.Unsandboxable, "%d folders of the program cannot be shown by overlays, more than can be told (%s); "+
			"start the agent in a folder of its own, with few folders in sys.path", word.Folders, word.Error).Because("folder_too_large")
	case word.Error != "":
		return word, fmt.Errorf("the zygote cannot get ready: %s", word.Error)
	}
	return word, nil
}
