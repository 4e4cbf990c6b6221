package hidden

import (
	"path"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	f := func(names string, want bool) {
		t.Helper()
		for name := range strings.FieldsSeq(names) {
			if Credentials(name) != want {
				t.Errorf("%s: %v", name, !want)
			}
		}
	}
	f("server.pem tls.KEY a.p12 id_rsa id_ed25519.pub credentials credentials.json aws-credentials.json client_secret_12.json", true)
	f("service-account.json service_account_prod.json secrets.toml secrets.yaml token.json token_v2.json app.keyring prod.env terraform.tfstate", true)
	for _, pattern := range credentialNames {
		if _, err := path.Match(pattern, ""); err != nil || pattern != strings.ToLower(pattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	for _, name := range Future {
		if !strings.HasPrefix(name, ".") && !Credentials(name) {
			t.Errorf("%q is hidden only while it is not there", name)
		}
	}
	// Code and data stay.
	f("secrets.py credentials.py main.py data.csv tokenizer.json keys.txt README.md environment.yml monkey.json tokens.md", false)
}

// Dot files and folders are hidden, and so are those that hold keys by name, in
// whatever case.
func TestFileAndFolder(t *testing.T) {
	f := func(name string, file, folder bool) {
		t.Helper()
		if File(name) != file || Folder(name) != folder {
			t.Errorf("%s: file %v, folder %v", name, File(name), Folder(name))
		}
	}
	for _, name := range []string{".env", ".env.local", ".env.production", ".env.whatever", ".ENV", ".Env.Local", ".envrc", ".netrc"} {
		f(name, true, true)
	}
	f("prod.env", true, false)
	f("PROD.ENV", true, false)
	f("env.local", true, false)
	f("Secrets", true, true)
	f("keyrings", false, true)
	f("NODE_MODULES", false, true)
	f("app", false, false)
	f("main.py", false, false)
	f("environment", false, false)
}

func TestPlace(t *testing.T) {
	f := func(p string, want bool) {
		t.Helper()
		if Place(p) != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
	f("/home/a/.ssh", true)
	f("/home/a/.AWS/credentials", true)
	f("/srv/secrets/app", true)
	f("/srv/app", false)
	f("/srv/secretsmanager", false)
}

// What an interpreter or the system brings is told from a program beside it.
func TestLibrary(t *testing.T) {
	f := func(folders string, want bool) {
		t.Helper()
		for folder := range strings.FieldsSeq(folders) {
			if Library(folder) != want {
				t.Errorf("%s: %v", folder, !want)
			}
		}
	}
	f("/usr/bin /usr/local/sbin /usr/lib /usr/lib64 /usr/lib/python3/dist-packages /usr/local/lib/python3.12 /usr/lib64/pypy3.10/x /x/site-packages/y", true)
	f("/usr/src/app /usr/local/lib/agent /usr/local/lib64/agent /usr/local/share/agent /usr/local/include /usr/libexec", false)
}
