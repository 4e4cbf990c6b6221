package local

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/runner/python"
)

//go:embed zygote/*.py
var zygoteFiles embed.FS

// zygoteProgram is the zygote as a zip file in memory, which Python runs as it
// is: no file of ours is written anywhere.
func zygoteProgram() (*os.File, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	add := func(name string, content []byte) error {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	entries, err := zygoteFiles.ReadDir("zygote")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := zygoteFiles.ReadFile("zygote/" + e.Name())
		if err != nil {
			return nil, err
		}
		if err := add(e.Name(), content); err != nil {
			return nil, err
		}
	}
	if err := add("bootstrap.py", python.Bootstrap); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return memoryFile("zygote", b.Bytes())
}

func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(content, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot write a file in memory: %w", err)
	}
	return f, nil
}
