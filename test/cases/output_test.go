package cases

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// kept is how many bytes of an output an answer holds.
const kept = 256 << 10

// R1: however much is written, memory stays flat and the next call works.
func TestR01OutputIsCapped(t *testing.T) {
	f := func(name string, req request, outcome string, atLeast int64) {
		t.Helper()
		grown := shared.growth(t, func() {
			a := shared.ask(t, req)
			if a.Outcome != outcome || !a.StdoutTruncated || a.StdoutBytes < atLeast || len(a.Stdout) > kept+100 {
				t.Errorf("%s: outcome %s, %d bytes written, truncated %v, %d kept", name, a.Outcome, a.StdoutBytes, a.StdoutTruncated, len(a.Stdout))
			}
		})
		if grown > 10<<20 {
			t.Errorf("%s: the service grew by %d MiB", name, grown>>20)
		}
		shared.works(t)
	}
	// 1 GiB, in large pieces.
	f("1 GiB", request{Code: "import os\nb = b'x' * 65536\nfor _ in range(16384): os.write(1, b)", Timeout: 60}, "ok", 1<<30)
	// Lines without end, until the timeout.
	f("lines", request{Code: `while True: print("1234567890")`, Timeout: 2}, "timeout", 10<<20)
}

// growth is how much the service's memory grew at most while act ran.
func (s *service) growth(t *testing.T, act func()) (grown int64) {
	t.Helper()
	pid := s.here()
	if pid == 0 {
		act()
		return 0
	}
	before, peak := residentBytes(t, pid), int64(0)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				peak = max(peak, residentBytes(t, pid))
			}
		}
	})
	act()
	close(done)
	watching.Wait()
	return peak - before
}

// R1: one print of more than the memory limit, and one of more than any cap.
func TestR01OnePrintOf700MB(t *testing.T) {
	f := func(s *service, outcome string, written int64) {
		t.Helper()
		a := s.ask(t, request{Code: `print("x" * 700_000_000)`, Timeout: 60})
		if a.Outcome != outcome || a.StdoutBytes != written {
			t.Errorf("outcome %s, %d bytes written: %s", a.Outcome, a.StdoutBytes, a.Reason)
		}
		s.works(t)
	}
	// The memory limit ends it.
	f(shared, "out_of_memory", 0)
	if shared.here() == 0 {
		return // what follows needs a service with other limits
	}
	// With room enough, all of it is counted.
	f(newService(t, "--memory", "3GiB", "--target", "1", "--max", "2"), "ok", 700_000_001)
}

// R2: one byte over the cap is flagged, the cap itself is not.
func TestR02OneByteOverTheCap(t *testing.T) {
	f := func(size int, truncated bool) {
		t.Helper()
		body := "head" + strings.Repeat("x", size-8) + "tail"
		for _, stream := range []string{"stdout", "stderr"} {
			a := shared.ask(t, request{Code: "import sys\nsys." + stream + ".write('head' + 'x' * (" + itoa(size) + " - 8) + 'tail') and None"})
			text, written, flagged := a.Stdout, a.StdoutBytes, a.StdoutTruncated
			if stream == "stderr" {
				text, written, flagged = a.Stderr, a.StderrBytes, a.StderrTruncated
			}
			if written != int64(size) || flagged != truncated || !strings.HasPrefix(text, "head") || !strings.HasSuffix(text, "tail") {
				t.Errorf("%d bytes on %s: %d written, truncated %v, head %.10q", size, stream, written, flagged, text)
			}
			if !truncated && text != body {
				t.Errorf("%d bytes on %s: %d came back", size, stream, len(text))
			}
		}
	}
	// At the cap.
	f(kept, false)
	// One over.
	f(kept+1, true)
	// Far over.
	f(3*kept, true)
}

// R3: bytes that are not UTF-8 become U+FFFD, NUL stays.
func TestR03BytesThatAreNoText(t *testing.T) {
	f := func(written, want string) {
		t.Helper()
		a := shared.run(t, "import sys\nsys.stdout.buffer.write("+written+") and None")
		if a.Stdout != want || a.ExitCode != 0 {
			t.Errorf("%s: %q, exit code %d", written, a.Stdout, a.ExitCode)
		}
	}
	// No UTF-8 at all, and NUL.
	f(`b"\xff\x00\xfe"`, "\ufffd\x00\ufffd")
	// The encoding of a surrogate.
	f(`b"\xed\xa0\x80"`, "\ufffd\ufffd\ufffd")
	// A character cut in half.
	f(`b"a\xc3"`, "a\ufffd")
	// Real text stays.
	f(`"é€😀".encode()`, "é€😀")
}

// R17: half a picture is flagged on stdout, and whole in a file.
func TestR17APictureOnStdoutAndInAFile(t *testing.T) {
	a := shared.run(t, `import base64, os
data = os.urandom(225 * 1024)
text = base64.b64encode(data).decode()
print(text)
open("picture.bin", "wb").write(data)
open("picture.txt", "w").write(text)
None`)
	if a.StdoutBytes != 225*1024/3*4+1 || !a.StdoutTruncated {
		t.Errorf("%d bytes written, truncated %v", a.StdoutBytes, a.StdoutTruncated)
	}
	bin, text := a.file("picture.bin"), a.file("picture.txt")
	if bin == nil || text == nil {
		t.Fatalf("files %v, omitted %v", a.Files, a.FilesOmitted)
	}
	decoded := file{Encoding: "base64", Content: text.Content}.bytes(t)
	if data := bin.bytes(t); len(data) != 225*1024 || !bytes.Equal(data, decoded) {
		t.Errorf("%d bytes in the file, %d printed into the other", len(data), len(decoded))
	}
	if !strings.HasPrefix(a.Stdout, text.Content[:1000]) {
		t.Error("stdout does not begin with what was printed")
	}
}
