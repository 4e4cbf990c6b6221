package doctor

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// The programs that try. Each prints one JSON object.
var (
	//go:embed programs/dial.py
	dialProgram string
	//go:embed programs/look.py
	lookProgram string
	//go:embed programs/memory.py
	memoryProgram string
	//go:embed programs/processes.py
	processesProgram string
	//go:embed programs/disk.py
	diskProgram string
)

// ask runs a program that is to end well, and reads what it says.
func ask(ctx context.Context, s Service, code string, args []string, said any) error {
	res, err := s.Run(ctx, code, args)
	if err != nil {
		return err
	}
	return read(res, said)
}

func read(res *wire.Result, said any) error {
	if res.Outcome != wire.OK {
		return fmt.Errorf("the program ended with %s: %s", res.Outcome, res.Reason)
	}
	if err := json.Unmarshal([]byte(res.Stdout), said); err != nil {
		return fmt.Errorf("cannot understand what the program says, %.100q: %w", res.Stdout, err)
	}
	return nil
}
