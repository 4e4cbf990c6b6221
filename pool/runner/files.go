package runner

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Bounds on the list of files itself; content has wire.Limits.FilesBytes.
const (
	MaxFiles   = 200 // in an answer
	maxOmitted = 100
	maxWalk    = 20000 // entries looked at
	// Each entry is reached by walking down to it: deep trees cost their square.
	maxDepth = 32 // folders
)

// mainFile is where the bootstrap puts the program; it is not an output.
const mainFile = "main.py"

// collector gathers what a program created or changed in its working
// directory. It follows no symbolic link and opens nothing but regular files.
type collector struct {
	root   *os.Root
	spare  *Reserve
	tight  bool              // the reserve is used up: what is taken is removed
	given  map[string]string // content of the files that were laid in, by path
	left   int64             // bytes of content still allowed
	budget int64
	walked int
	full   bool // no more is looked at
	names  names
	odd    []entry // those whose names are not UTF-8
	last   bool    // it is their turn
	files  []wire.File
	omits  []wire.OmittedFile
	extra  int // omitted, and not even named
}

// touched says whether the working directory holds anything but the program.
func touched(dir *os.File) bool {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return true
	}
	names, err := dir.Readdirnames(2)
	return len(names) > 1 || len(names) == 1 && names[0] != mainFile || err != nil && err != io.EOF
}

// collect reads the files of a dead program from its working directory.
func collect(dir *os.File, spare *Reserve, req *wire.Request, budget int64) ([]wire.File, []wire.OmittedFile, error) {
	dir.Chmod(0o700) //nolint:errcheck // where it is ours, the program may have closed it; where not, it could not
	// The directory may be in no mount table any more: it is reached by descriptor.
	c := &collector{spare: spare, given: given(req), left: budget, budget: budget, names: names{}}
	var err error
	if c.root, err = withSpare(c, func() (*os.Root, error) { return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())) }); err != nil {
		return nil, nil, fmt.Errorf("cannot open the working directory: %w", err)
	}
	defer c.root.Close()
	c.walk()
	if c.extra > 0 {
		c.omits = append(c.omits, wire.OmittedFile{Path: "…", Reason: fmt.Sprintf("%d more files are not named", c.extra)})
	}
	return c.files, c.omits, nil
}

func given(req *wire.Request) map[string]string {
	all := map[string]string{mainFile: req.Code}
	for _, f := range req.Files {
		content := f.Content
		if f.Encoding == "base64" {
			b, _ := base64.StdEncoding.DecodeString(f.Content) // checked at the door
			content = string(b)
		}
		all[path.Clean(f.Path)] = content
	}
	return all
}

// entry is one file or folder, by its path below the working directory.
type entry struct {
	name string
	fs.DirEntry
}

// walk visits everything, in the order of names, and what has a name that is
// not UTF-8 last. It is not fs.WalkDir, which goes into no folder of such a name.
func (c *collector) walk() {
	c.look(".")
	c.last = true
	for _, e := range c.odd {
		c.visit(e)
	}
}

// look visits what is in a folder.
func (c *collector) look(folder string) {
	entries, err := withSpare(c, func() ([]fs.DirEntry, error) {
		dir, err := c.root.Open(folder)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return dir.ReadDir(-1) // which looks at each entry, where the folder does not tell what it is
	})
	if err != nil {
		c.omit(folder, 0, "cannot be read")
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range entries {
		e := entry{path.Join(folder, d.Name()), d}
		if c.last || utf8.ValidString(e.name) {
			c.visit(e)
		} else {
			c.odd = append(c.odd, e)
		}
	}
}

func (c *collector) visit(e entry) {
	if c.full {
		return
	}
	if c.walked++; c.walked > maxWalk {
		c.full = true
		c.omit("…", 0, fmt.Sprintf("only the first %d entries were looked at", maxWalk))
		return
	}
	switch {
	case e.IsDir() && strings.Count(e.name, "/") >= maxDepth:
		c.omit(e.name, 0, fmt.Sprintf("folders are looked into %d deep", maxDepth))
	case e.IsDir():
		if e.Name() != "__pycache__" {
			c.look(e.name)
			c.drop(e.name)
		}
	case !e.Type().IsRegular():
		c.omit(e.name, 0, "not a regular file, and links are not followed")
	default:
		c.take(e.name)
	}
}

func (c *collector) take(name string) {
	f, err := c.open(name)
	if err != nil {
		c.omit(name, 0, "cannot be read")
		return
	}
	defer c.drop(name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		c.omit(name, 0, "cannot be read")
		return
	}
	size := info.Size()
	if was, ok := c.given[name]; ok && int64(len(was)) == size && same(f, was) {
		return
	}
	switch {
	case size > c.left:
		c.omit(name, size, fmt.Sprintf("the files of an answer may hold %d bytes together", c.budget))
	case len(c.files) == MaxFiles:
		c.omit(name, size, fmt.Sprintf("an answer holds at most %d files", MaxFiles))
	default:
		c.add(name, size, f)
	}
}

func (c *collector) add(name string, size int64, f *os.File) {
	content := make([]byte, size)
	n, err := f.ReadAt(content, 0)
	if err != nil && err != io.EOF {
		c.omit(name, size, "cannot be read")
		return
	}
	content = content[:n]
	c.left -= int64(n)
	file := wire.File{Path: c.names.text(name), Size: int64(n), MediaType: mediaType(name, content), Encoding: "utf-8"}
	if utf8.Valid(content) {
		file.Content = string(content)
	} else {
		file.Encoding = "base64"
		file.Content = base64.StdEncoding.EncodeToString(content)
	}
	c.files = append(c.files, file)
}

func (c *collector) omit(name string, size int64, reason string) {
	if len(c.omits) == maxOmitted {
		c.extra++
		return
	}
	c.omits = append(c.omits, wire.OmittedFile{Path: c.names.text(name), Size: size, Reason: reason})
}

// same compares a file of want's size with want.
func same(f *os.File, want string) bool {
	buf := make([]byte, len(want))
	_, err := f.ReadAt(buf, 0)
	return (err == nil || err == io.EOF) && string(buf) == want
}

// mediaTypes has the kinds of file that programs usually leave; the machine's
// own table differs from machine to machine.
var mediaTypes = map[string]string{
	".csv": "text/csv", ".tsv": "text/tab-separated-values", ".txt": "text/plain", ".md": "text/markdown",
	".json": "application/json", ".jsonl": "application/x-ndjson", ".html": "text/html", ".xml": "application/xml",
	".py": "text/x-python", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
	".svg": "image/svg+xml", ".webp": "image/webp", ".pdf": "application/pdf", ".zip": "application/zip",
	".parquet": "application/vnd.apache.parquet", ".npy": "application/octet-stream",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

func mediaType(name string, content []byte) string {
	if t, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	t, _, _ := strings.Cut(http.DetectContentType(content), ";")
	if strings.HasPrefix(t, "text/") && !utf8.Valid(content) { // it takes any bytes above 0x7f for text
		return "application/octet-stream"
	}
	return t
}
