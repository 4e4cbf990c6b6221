package request

import (
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// program is the name the runner gives the snippet in the working directory.
const program = "main.py"

// fileFields are the names a file may have. size and media_type are answers'
// and are passed over, so that a file of an answer can be sent as it is.
var fileFields = []string{"path", "content", "encoding", "size", "media_type"}

func (p *parser) files(raw []byte) error {
	taken := map[string]bool{}
	err := elements(raw, "files", func(i int, value []byte) error {
		if i >= p.limits.Files {
			return fmt.Errorf("files has more than %d entries, which is the limit", p.limits.Files)
		}
		what := fmt.Sprintf("files[%d]", i)
		f, err := parseFile(value, what)
		if err != nil {
			return err
		}
		if f.Path, err = cleanPath(f.Path, what+".path", p.limits.PathBytes); err != nil {
			return err
		}
		if taken[f.Path] {
			return fmt.Errorf("%s.path is %q, which another file has: a path may be given once", what, f.Path)
		}
		taken[f.Path] = true
		p.req.Files = append(p.req.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range p.req.Files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if taken[dir] {
				return fmt.Errorf("files has both %q and %q: one path cannot be a file and a folder", dir, f.Path)
			}
		}
	}
	return nil
}

func parseFile(raw []byte, what string) (wire.File, error) {
	var f wire.File
	var hasPath, hasContent bool
	err := members(raw, what, func(name string, value []byte) (err error) {
		switch name {
		case "path":
			hasPath = true
			f.Path, err = text(value, what+".path")
		case "content":
			hasContent = true
			f.Content, err = text(value, what+".content")
		case "encoding":
			f.Encoding, err = text(value, what+".encoding")
		case "size", "media_type":
		default:
			err = unknown(name, what, fileFields[:3])
		}
		return err
	})
	switch {
	case err != nil:
		return f, err
	case !hasPath:
		return f, fmt.Errorf("%s.path is missing: give a path relative to the working directory", what)
	case !hasContent:
		return f, fmt.Errorf("%s.content is missing: give the file's content, or an empty string", what)
	}
	return f, checkEncoding(f, what)
}

func checkEncoding(f wire.File, what string) error {
	switch f.Encoding {
	case "", "utf-8":
		return nil
	case "base64":
		// Decoded as a stream: what is checked is not held twice.
		_, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(f.Content)))
		if err != nil {
			return fmt.Errorf("%s.content is not base64, as its encoding says: %w", what, err)
		}
		return nil
	}
	return fmt.Errorf("%s.encoding is %q: it must be utf-8 or base64", what, Clip(f.Encoding))
}

// cleanPath is the shortest form of a path below the working directory, or an
// error for one that is none.
func cleanPath(name, what string, limit int) (string, error) {
	shown := Clip(name)
	switch {
	case name == "":
		return "", fmt.Errorf("%s is empty: give a path relative to the working directory", what)
	case len(name) > limit:
		return "", fmt.Errorf("%s has %d bytes, over the limit of %d", what, len(name), limit)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%s is %q: a path cannot hold a NUL character", what, shown)
	case strings.HasPrefix(name, "/"):
		return "", fmt.Errorf("%s is %q: it must be relative to the working directory, not absolute", what, shown)
	case strings.HasSuffix(name, "/"):
		return "", fmt.Errorf("%s is %q: it names a folder; folders are made as files need them", what, shown)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf(`%s is %q: it must not contain ".."`, what, shown)
		}
		if len(part) > 255 {
			return "", fmt.Errorf("%s is %q: a name in it has %d bytes, over the limit of 255", what, shown, len(part))
		}
	}
	clean := path.Clean(name)
	switch {
	case clean == ".":
		return "", fmt.Errorf("%s is %q: it names the working directory itself", what, shown)
	case clean == program || strings.HasPrefix(clean, program+"/"):
		return "", fmt.Errorf("%s is %q: %s is the program itself", what, shown, program)
	}
	return clean, nil
}
