package main

import (
	"flag"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

// runOptions are the flags of "code-sandbox run".
type runOptions struct {
	url     string
	timeout time.Duration
	env     pairs
	files   repeated
	stdin   bool
	out     string
	json    bool
	file    string   // the program's, or "-"
	args    []string // the program's
}

func parseRun(args []string) (runOptions, error) {
	var o runOptions
	fs := flag.NewFlagSet("code-sandbox run", flag.ContinueOnError)
	fs.StringVar(&o.url, "url", "http://127.0.0.1:8900", "run on the service at this `address`")
	fs.Var((*runTimeout)(&o.timeout), "timeout", "end the program after this `time`, like 30s, or seconds (default: the service's)")
	fs.Var(&o.env, "env", "give the program this environment variable, `NAME=VALUE`; may be repeated")
	fs.Var(&o.files, "file", "lay this file in the working directory, `LOCAL[:PATH]`; may be repeated")
	fs.BoolVar(&o.stdin, "stdin", false, "pass our standard input to the program, once it has ended")
	fs.StringVar(&o.out, "out", "", "write the files that come back below this `folder`; without it they are only named")
	fs.BoolVar(&o.json, "json", false, "print the whole answer as JSON when the program has ended, instead of its output")
	fs.Usage = func() {
		_, _ = fmt.Fprintf(fs.Output(), "code-sandbox run [flags] FILE|- [arguments of the program]\n\nFILE is the program; - reads it from standard input.\n\n")
		fs.PrintDefaults()
	}
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() == 0 {
		return o, fmt.Errorf("%w: name a program: code-sandbox run FILE, or - for standard input", errUsage)
	}
	o.file, o.args = fs.Arg(0), fs.Args()[1:]
	if len(o.args) > 0 && o.args[0] == "--" {
		o.args = o.args[1:]
	}
	return o, o.validate()
}

func (o *runOptions) validate() error {
	u, err := url.Parse(o.url)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%w: --url is %q; it must be like http://127.0.0.1:8900", errUsage, o.url)
	case o.stdin && o.file == "-":
		return fmt.Errorf("%w: --stdin does not go with the file -: standard input can be the program or its input, not both", errUsage)
	}
	o.url = strings.TrimSuffix(o.url, "/")
	return nil
}

// runTimeout is a flag of what the API takes; zero is the service's own.
type runTimeout time.Duration

func (r *runTimeout) Set(text string) error {
	var d flags.Duration
	if err := d.Set(text); err != nil {
		return err
	}
	if time.Duration(d) < minTimeout {
		return fmt.Errorf("it must be at least %s; leave it out for the service's own", minTimeout)
	}
	*r = runTimeout(d)
	return nil
}

func (r *runTimeout) String() string { return (*flags.Duration)(r).String() }

// pairs is a flag of NAME=VALUE that may be repeated.
type pairs map[string]string

func (p *pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not like NAME=VALUE", text)
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}

func (p *pairs) String() string { return "" }

// repeated is a flag that may be repeated.
type repeated []string

func (r *repeated) Set(text string) error {
	if text == "" {
		return fmt.Errorf("it is empty")
	}
	*r = append(*r, text)
	return nil
}

func (r *repeated) String() string { return "" }
