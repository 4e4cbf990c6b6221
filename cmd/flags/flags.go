// Package flags reads the settings of the commands: flags, and the environment
// for those that are not given.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/sidecar/request"
)

// ErrUsage marks a mistake in how a program was called: exit code 2.
var ErrUsage = errors.New("usage")

// Parse reads args, then the environment for each flag that was not given. A
// variable that is empty says nothing: the default holds.
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
		return fmt.Errorf("%w: %w; %s%s -h lists the flags", ErrUsage, err, meant(fs, args), fs.Name())
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		name := "CODE_SANDBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(name)
		if value == "" || given[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("%w: the environment's %s=%q: %w", ErrUsage, name, value, err))
		}
	})
	return errors.Join(errs...)
}

// meant proposes a flag for the first that there is not.
func meant(fs *flag.FlagSet, args []string) string {
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || name == "" || fs.Lookup(name) != nil {
			continue
		}
		if near := request.Nearest(name, names); near != "" {
			return fmt.Sprintf("did you mean --%s? ", near)
		}
		break
	}
	return ""
}

// Duration is a flag of time: "30s", "5m", or a plain number of seconds.
type Duration time.Duration

// Set implements flag.Value.
func (d *Duration) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) < 1e6 {
		*d = Duration(n * float64(time.Second))
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a time such as 30s", text)
	}
	*d = Duration(parsed)
	return nil
}

// String implements flag.Value.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Size is a flag in bytes: "512MiB", "64KiB", "1GiB", "1TiB" or a plain number.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

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
	return fmt.Errorf("%q is not a size such as 512MiB; the units are KiB, MiB, GiB and TiB", text)
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
