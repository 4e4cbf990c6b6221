package wire

import "testing"

// What is not as it must be has no folders, rather than some of them: who looks
// for credentials in all of them would miss the others.
func TestFolders(t *testing.T) {
	f := func(boot, wantCwd, wantMain string, readable bool) {
		t.Helper()
		cwd, main, err := (&Copy{Boot: []byte(boot)}).Folders()
		if cwd != wantCwd || main != wantMain || (err == nil) != readable {
			t.Errorf("%q and %q, %v", cwd, main, err)
		}
	}
	f(`{"cwd":"/app","main":{"kind":"path","path":"/app/main.py"},"env":{"values":{}}}`, "/app", "/app/main.py", true)
	f(`{"cwd":"/app","main":{"kind":"none","path":""}}`, "/app", "", true)
	f(`{}`, "", "", true)
	f(``, "", "", false)
	f(`[]`, "", "", false)
	f(`{"cwd":7,"main":{"path":"/app/main.py"}}`, "", "", false)
	f(`{"cwd":"/app","main":"/app/main.py"}`, "", "", false)
}
