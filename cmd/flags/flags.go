// Package flags reads the settings of the commands: flags, and the environment
// for those that are not given.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrUsage marks a mistake in how a program was called: exit code 2.
var ErrUsage = errors.New("usage")

// Parse reads args, then the environment for each flag that was not given.
func Parse(fs *flag.FlagSet, args []string) error {
	usage := fs.Usage
	// A mistake is told in one sentence, not in a page.
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(os.Stdout)
			usage()
			return err
		}
		return fmt.Errorf("%w: %w; %s -h lists the flags", ErrUsage, err, fs.Name())
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		name := "CODE_SANDBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || given[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("%w: the environment's %s=%q: %w", ErrUsage, name, value, err))
		}
	})
	return errors.Join(errs...)
}

// Size is a flag in bytes: "512MiB", "64KiB", "1GiB" or a plain number.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// Set implements flag.Value.
func (s *Size) Set(text string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 512MiB", text)
}

func (s *Size) String() string {
	for _, u := range units {
		if *s != 0 && int64(*s)%u.bytes == 0 {
			return strconv.FormatInt(int64(*s)/u.bytes, 10) + u.suffix
		}
	}
	return "0"
}

// List is a flag of comma-separated words.
type List []string

// Set implements flag.Value.
func (l *List) Set(text string) error {
	*l = nil
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l = append(*l, word)
		}
	}
	return nil
}

func (l *List) String() string { return strings.Join(*l, ",") }
