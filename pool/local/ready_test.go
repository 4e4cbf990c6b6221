package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// Every folder that has no overlay is told, however many they are and however
// long their names.
func TestManyFoldersAreTold(t *testing.T) {
	var log bytes.Buffer
	d := newDriver(t, func(o *Options) {
		o.Hook, o.Without = hookFolder(t), []string{"overlay"}
		o.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	})
	dir := project(t, map[string]string{"tools.py": tools})
	template := lookIn(t, d, dir)
	var folders []string
	for i := range 60 {
		folder := filepath.Join(dir, fmt.Sprintf("%02d%s", i, strings.Repeat("ä", 120)), "end")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	template.Copy.Program = slices.Concat(template.Copy.Program, folders)
	warm(t, d, template)
	for _, folder := range folders {
		if !strings.Contains(log.String(), folder+": ") {
			t.Fatalf("%q is not told of: %s", folder, log.String())
		}
	}
}

// A zygote's word is read whole, or it is an error.
func TestReadyWord(t *testing.T) {
	f := func(word string, live int, reason string) {
		t.Helper()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		z := &zygote{channel: os.NewFile(uintptr(pair[0]), "zygote"), exited: make(chan struct{})}
		defer z.channel.Close()
		defer unix.Close(pair[1])
		if err := unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_SNDBUF, 2*maxWord); err != nil {
			t.Fatal(err)
		}
		if err := unix.Send(pair[1], []byte(word), 0); err != nil {
			t.Fatal(err)
		}
		got, err := z.ready()
		if e, typed := errors.AsType[*api.Error](err); typed != (reason != "") || typed && (e.Reason != reason || e.Code != api.Unsandboxable || e.Executed != api.No) {
			t.Errorf("the error is %v", err)
		}
		if err == nil && len(got.Live) != live {
			t.Errorf("%d of %d folders were told", len(got.Live), live)
		}
	}
	// As long a word as the kernel of a service without rights takes.
	f(`{"live":["`+strings.Repeat("x", 150<<10)+`","y"]}`, 2, "")
	f(`{"error":"its word has 999999 bytes","folders":5000}`, 0, "folder_too_large")
}
