package cluster

import (
	"os"
	"strings"
	"testing"
)

// Each change to the Dockerfile that changes an image is found.
func TestDockerfileDiffers(t *testing.T) {
	raw, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	f := func(from, to, want string) {
		t.Helper()
		if !strings.Contains(string(raw), from) {
			t.Fatalf("the Dockerfile has no %q", from)
		}
		parsed, err := parseDockerfile(strings.Replace(string(raw), from, to, 1))
		if err != nil {
			t.Fatal(err)
		}
		stages := map[string]stage{}
		for _, s := range parsed {
			stages[s.name] = s
		}
		product, python := findImage(nil, "code-sandbox"), findImage(nil, "python")
		var found []string
		found = append(found, settingsDiffer(stages["code-sandbox"], product)...)
		found = append(found, settingsDiffer(stages["python"], python)...)
		found = append(found, contentDiffers(stages, product, python)...)
		if got := strings.Join(found, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	// as it is
	f("USER", "USER", "")
	// another user
	f("USER 65532:65532", "USER 0", "USER")
	// another program first
	f(`ENTRYPOINT ["/usr/local/bin/code-sandbox"]`, `ENTRYPOINT ["/bin/sh"]`, "ENTRYPOINT")
	// one program less
	f("code-sandbox control", "code-sandbox", "for main in")
	// other flags for the compiler
	f("-trimpath ", "", "go build")
	// a base with more in it
	f("FROM scratch", "FROM debian", "base")
	// other flags for pip
	f("--only-binary", "--no-binary", "--only-binary")
	// one package less
	f("libstdc++6 ", "", "libstdc++6")
	// another start of the python image
	f(`CMD ["python3"]`, `CMD ["sh"]`, "CMD")
}

func TestParseDockerfile(t *testing.T) {
	f := func(text string, ok bool) {
		t.Helper()
		if _, err := parseDockerfile(text); (err == nil) != ok {
			t.Errorf("error %v", err)
		}
	}
	// stages and comments
	f("# a\nFROM a AS b\nRUN c \\\n  d\n", true)
	// a stage that cannot be named
	f("FROM a\n", false)
	// nothing to belong to
	f("RUN a\n", false)
}
