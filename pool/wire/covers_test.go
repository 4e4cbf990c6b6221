package wire

import (
	"reflect"
	"strings"
	"testing"
)

// Nothing is mounted inside of a folder that is empty and read-only, where a
// runtime finds no place for it, and cannot make one.
func TestOutermost(t *testing.T) {
	f := func(files, folders, volumes, wantFiles, wantFolders, wantVolumes string) {
		t.Helper()
		got := Covers{Files: fields(files), Folders: fields(folders), Volumes: fields(volumes)}.Outermost()
		if want := (Covers{Files: fields(wantFiles), Folders: fields(wantFolders), Volumes: fields(wantVolumes)}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	f("", "", "", "", "", "")
	f("/b/.env /a/.env", "/a/.aws", "/data", "/b/.env /a/.env", "/a/.aws", "/data")
	// Inside of a folder, and beside one of a longer name.
	f("/a/x/key.pem /a/xy/key.pem", "/a/x", "", "/a/xy/key.pem", "/a/x", "")
	f("", "/a/x/deep/.git /a/x /a/xy", "", "", "/a/x /a/xy", "")
	// A volume inside of a folder, at any depth; a volume that is one.
	f("/a/x/key.pem", "/a/x/y /a/x /b", "/a/x/y/v", "", "/b", "/a/x /a/x/y/v")
	f("", "/a/x", "/a/x", "", "", "/a/x")
	// What is inside of a volume is not there; volumes stand in each other.
	f("/v/.env /w/.env", "/v/.aws", "/v /v/sub", "/w/.env", "", "/v /v/sub")
}

// fields are nil when there are none, as they are in what is compared.
func fields(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Fields(s)
}
