package toolproxy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

// large is a boot record of a process, with about that many bytes of text.
func large(id string, bytes int) string {
	return fmt.Sprintf(`{"boot_id":%q,"python":{"executable":"/usr/bin/python3"},"failure":%q}`, id, strings.Repeat("x", bytes))
}

// Records have a bound in bytes, all together: 150 of 3.5 MB once held 1.4 GB, and these would hold 84 MB.
// Those that are used stay.
func TestBootsAreBoundedInBytes(t *testing.T) {
	p := newProxy(t, value)
	hello(t, p)
	before := heap()
	for i := range 24 {
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", large(fmt.Sprintf("large-%d", i), 3_500_000)); err != nil {
			t.Fatal(err)
		}
		if _, err := serve(t, t.Context(), p, "/v1/tools/call", callJSON); err != nil {
			t.Fatalf("a process that is used was forgotten after %d others: %v", i, err)
		}
	}
	if p.held > 64<<20 || p.held < 50<<20 || len(p.Boots()) != 1+(64<<20)/3_500_000 {
		t.Errorf("%d records hold %d bytes", len(p.Boots()), p.held)
	}
	if grown := heap() - before; grown > 72<<20 {
		t.Errorf("the heap has %d bytes more", grown)
	}
	runtime.KeepAlive(p)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a record held is given back when another takes its place.
func TestBootInItsPlace(t *testing.T) {
	p := newProxy(t, value, func(o *Options) { o.MaxBoots = 2 })
	f := func(id string, bytes, least, most int) {
		t.Helper()
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", large(id, bytes)); err != nil {
			t.Fatal(err)
		}
		if p.held < least || p.held > most {
			t.Errorf("held are %d bytes", p.held)
		}
	}
	f("a", 100_000, 100_000, 102_000)
	f("a", 50_000, 50_000, 52_000)
	f("b", 50_000, 100_000, 104_000)
	f("c", 10_000, 60_000, 64_000) // a is forgotten for their number
}

// One record has a bound of its own: on what it takes in memory, which is more
// than its text, and on what each copy is told.
func TestOneBootIsBounded(t *testing.T) {
	p := newProxy(t, value)
	f := func(from, to string) {
		t.Helper()
		_, err := serve(t, t.Context(), p, "/v1/tools/hello", strings.Replace(bootJSON, from, to, 1))
		if err == nil || err.Code != api.TooLarge || err.Executed != api.No || !strings.Contains(err.Message, "1048576") {
			t.Errorf("%v", err)
		}
	}
	f(`"argv0":"main.py"`, `"argv0":"`+strings.Repeat("x", maxReady)+`"`)
	f(`"argv0":"main.py"`, `"argv0":"`+strings.Repeat("<", maxReady/5)+`"`) // six bytes each for a copy
	if len(p.Boots()) > 0 {
		t.Errorf("%v", p.Boots())
	}
	// Beyond their number, tools and frameworks are not kept.
	many := strings.Replace(bootJSON, `"tools":[`, `"tools":[`+strings.Repeat(`{},`, 20_000), 1)
	if _, err := serve(t, t.Context(), p, "/v1/tools/hello", strings.Replace(many, `"frameworks":[`, `"frameworks":[`+strings.Repeat(`{},`, 20_000), 1)); err != nil {
		t.Fatal(err)
	}
	if b := p.boot("b1"); len(b.record.Tools) != maxTools || cap(b.record.Tools) > 2*maxTools || len(b.record.Frameworks) != maxFrames || cap(b.record.Frameworks) > 2*maxFrames || b.size > 1<<20 {
		t.Errorf("%d bytes are kept: room for %d tools and %d frameworks", b.size, cap(b.record.Tools), cap(b.record.Frameworks))
	}
}
