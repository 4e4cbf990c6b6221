package server

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// ParseConfig reads a wire.RunnerConfig, fills in what is empty, and refuses
// what cannot be worked with.
func ParseConfig(text []byte) (wire.RunnerConfig, error) {
	var c wire.RunnerConfig
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("cannot read the runner's configuration in %s: %w", wire.RunnerEnv, err)
	}
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Python, "python3"}, {&c.Isolation, "pod"}, {&c.Address, fmt.Sprintf(":%d", wire.RunnerPort)},
		{&c.Work, "/work"}, {&c.Temp, "/tmp"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.ProxyPort == 0 {
		c.ProxyPort = wire.ProxyPort
	}
	if c.Copy {
		c.Work = c.Temp // the program's own folders are the image's
	}
	if err := validate(c); err != nil {
		return c, fmt.Errorf("cannot use the runner's configuration in %s: %w", wire.RunnerEnv, err)
	}
	return c, nil
}

func validate(c wire.RunnerConfig) error {
	if hash, err := hex.DecodeString(c.SecretSHA256); err != nil || len(hash) != 32 {
		return errors.New("secret_sha256 is not 64 hexadecimal digits")
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if c.Life <= 0 {
		return errors.New("life must be positive")
	}
	if !filepath.IsAbs(c.Work) || !filepath.IsAbs(c.Temp) || c.Work == c.Temp && !c.Copy {
		return errors.New("work and temp must be two absolute paths")
	}
	return nil
}

// checkFolders refuses folders that something was in before: a container that
// was started again would find the files of the run before it. Of what is mounted
// in them, as of VOLUMEs of the image, a runtime has made the place.
func checkFolders(c wire.RunnerConfig, mounts []string) error {
	for _, dir := range []string{c.Work, c.Temp} {
		if err := checkEmpty(dir, mounts); err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty refuses a folder with more in it than mounts, and the way to them.
func checkEmpty(dir string, mounts []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the folder: %w", err)
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(mounts, p):
		case e.IsDir() && slices.ContainsFunc(mounts, func(mount string) bool { return hidden.Below(mount, p) }):
			if err := checkEmpty(p, mounts); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the folder %q is not empty: a sandbox is used once", dir)
		}
	}
	return nil
}
