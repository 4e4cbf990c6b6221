package local

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func newDriver(t testing.TB, change func(*Options)) *Driver {
	t.Helper()
	python, err := LookPython(t.Context(), "python3")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Python: python, MemoryBytes: wire.DefaultLimits().MemoryBytes, Logger: hclog.NewNullLogger()}
	if change != nil {
		change(&opts)
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func template() pool.Template {
	return pool.Template{Limits: wire.DefaultLimits(), DNS: "relay"}
}

func run(t testing.TB, d *Driver, req *wire.Request) *wire.Result {
	t.Helper()
	ctx := context.Background()
	a := time.Now()
	s, err := d.Start(ctx, template())
	if err != nil {
		t.Fatal(err)
	}
	started := time.Since(a)
	if req.TimeoutSeconds == 0 {
		req.TimeoutSeconds = 10
	}
	a = time.Now()
	res, err := s.Run(ctx, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := time.Since(a)
	a = time.Now()
	if err := d.Destroy(ctx, s.ID()); err != nil {
		t.Fatal(err)
	}
	t.Logf("start %s run %s destroy %s", started, ran, time.Since(a))
	return res
}

func TestX(t *testing.T) {
	d := newDriver(t, nil)
	t.Log(d.memoryBy, d.unprivileged)
	for _, code := range []string{"print(1)", "print(2)\n3+4", "import os\nos._exit(300)", "1/0", "import os\nos.kill(os.getpid(), 11)",
		"x = bytearray(10**10)", "import os\nwhile True: os.fork()", "open('a b é.txt','w').write('hi')", "import socket; socket.create_connection(('1.1.1.1',80))",
		"import os; print(open('/proc/self/status').read(), os.listdir('/'), os.getuid())", "import nosuch",
		"open('/tmp/x','wb').write(b'0'*2**33)", "import time; print('hi'); time.sleep(99)"} {
		req := &wire.Request{Code: code}
		if code[len(code)-3:] == "99)" {
			req.TimeoutSeconds = 1
		}
		res := run(t, d, req)
		t.Logf("%q\n   %+v", code, *res)
		if res.Value != nil {
			t.Log(*res.Value)
		}
	}
}
