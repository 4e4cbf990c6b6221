package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// maxInput bounds what is read of any file or of standard input. The service
// has limits of its own, far below, and names them.
const maxInput = 64 << 20

// request is the run that the flags ask for.
func (o *runOptions) request(stdin io.Reader) (*wire.Request, error) {
	req := &wire.Request{TimeoutSeconds: o.timeout.Seconds(), Args: o.args, Env: o.env}
	code, err := o.program(stdin)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(code) {
		return nil, fmt.Errorf("the program %q is not UTF-8", o.file)
	}
	req.Code = string(code)
	if o.stdin {
		text, err := readAll(stdin, "standard input")
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(text) {
			return nil, errors.New("standard input is not UTF-8: give it with --file instead")
		}
		input := string(text)
		req.Stdin = &input
	}
	for _, name := range o.files {
		file, err := given(name)
		if err != nil {
			return nil, err
		}
		req.Files = append(req.Files, file)
	}
	return req, nil
}

func (o *runOptions) program(stdin io.Reader) ([]byte, error) {
	if o.file == "-" {
		return readAll(stdin, "standard input")
	}
	return readFile(o.file)
}

// given reads the file that LOCAL[:PATH] names. Without PATH it goes by its
// last name.
func given(name string) (wire.File, error) {
	local, to := name, ""
	if at := strings.LastIndexByte(name, ':'); at >= 0 {
		if _, err := os.Stat(name); err != nil { // no file has the colon in its name
			local, to = name[:at], name[at+1:]
		}
	}
	if to == "" {
		to = filepath.Base(local)
	}
	content, err := readFile(local)
	if err != nil {
		return wire.File{}, err
	}
	file := wire.File{Path: to, Size: int64(len(content)), Content: string(content), Encoding: "utf-8"}
	if !utf8.Valid(content) {
		file.Content, file.Encoding = base64.StdEncoding.EncodeToString(content), "base64"
	}
	return file, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %q: %w", name, bare(err))
	}
	defer f.Close()
	return readAll(f, fmt.Sprintf("%q", name))
}

func readAll(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, bare(err))
	}
	if len(b) > maxInput {
		return nil, fmt.Errorf("cannot send %s: it is larger than %d MiB", name, maxInput>>20)
	}
	return b, nil
}

// bare is the cause of a file's error without its name, which is told already.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// keep writes the files that came back below --out, and names on stderr what is
// not kept.
func (o *runOptions) keep(a *answer) error {
	if o.json && o.out == "" {
		return nil // they stand in the answer
	}
	for _, f := range a.FilesOmitted {
		fmt.Fprintf(os.Stderr, "code-sandbox: the file %q (%d bytes) did not come back: %s\n", f.Path, f.Size, f.Reason)
	}
	if len(a.Files) == 0 {
		return nil
	}
	if o.out == "" {
		names := make([]string, 0, len(a.Files))
		for _, f := range a.Files {
			names = append(names, fmt.Sprintf("%q", f.Path))
		}
		fmt.Fprintf(os.Stderr, "code-sandbox: the program wrote %s; keep its files with --out FOLDER\n", strings.Join(names, ", "))
		return nil
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return fmt.Errorf("cannot make the folder %q: %w", o.out, bare(err))
	}
	root, err := os.OpenRoot(o.out)
	if err != nil {
		return fmt.Errorf("cannot open the folder %q: %w", o.out, bare(err))
	}
	defer root.Close()
	for _, f := range a.Files {
		if err := keepFile(root, f); err != nil {
			return fmt.Errorf("cannot write the file %q below %q: %w", f.Path, o.out, bare(err))
		}
	}
	return nil
}

// keepFile writes one file. Whatever its path says, or the links below root, it
// does not leave root.
func keepFile(root *os.Root, f wire.File) error {
	content := []byte(f.Content)
	if f.Encoding == "base64" {
		var err error
		if content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
			return err
		}
	}
	if dir := path.Dir(f.Path); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	return root.WriteFile(f.Path, content, 0o666)
}
