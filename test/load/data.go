package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Requirements pins what the measurements with data import.
var Requirements = []string{"numpy==2.4.6", "pandas==3.1.1"}

// DataPython makes, once, an environment with Requirements under the user's
// cache folder, and returns its interpreter.
func DataPython(ctx context.Context, python string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find a place for packages: %w", err)
	}
	name := "load-" + strings.NewReplacer("==", "-").Replace(strings.Join(Requirements, "-"))
	dir := filepath.Join(cache, "code-sandbox-test", name)
	made := filepath.Join(dir, "bin", "python")
	if exec.CommandContext(ctx, made, "-c", "import numpy, pandas").Run() == nil {
		return made, nil
	}
	for _, args := range [][]string{
		{python, "-m", "venv", "--clear", dir},
		append([]string{made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, Requirements...),
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot make an environment with %s: %w: %s", strings.Join(Requirements, " and "), err, out)
		}
	}
	return made, nil
}

var sumOfFrame = snippet{"import pandas; print(pandas.DataFrame({\"a\":[1]}).sum())", "a    1\ndtype: int64\n"}

func measureData(ctx context.Context, e *Env, sheet *Sheet) error {
	return e.withService(ctx, func(s *Service) error {
		return e.eachRound(ctx, func() error {
			t, err := openLoop(s.Addr, sumOfFrame, 50, e.Length)
			if err != nil {
				return err
			}
			if err := t.err(); err != nil {
				return err
			}
			sheet.AddLatency(PartData, "pandas snippet over HTTP", t.times)
			busy, err := closedLoop(s.Addr, sumOfFrame, 4, e.Length)
			if err != nil {
				return err
			}
			sheet.Add(PartData, "pandas snippet, 4 callers", "runs/s", busy.rate())
			imports, err := e.importTime(ctx, max(3, e.Baseline/10))
			if err != nil {
				return err
			}
			sheet.Add(PartData, "importing pandas in a plain interpreter", "ms", Milliseconds(imports))
			whole, err := command{[]string{e.Data, "-c", sumOfFrame.code}, sumOfFrame.stdout}.repeat(ctx, max(3, e.Baseline/10))
			if err != nil {
				return err
			}
			sheet.Add(PartData, "python3 -c with the same snippet, no sandbox", "ms", Milliseconds(Quantile(whole, 0.5)))
			sheet.Add(PartData, "python3 -c is slower by", "", ratio(Quantile(whole, 0.5), Quantile(t.times, 0.5)))
			return t.err()
		})
	}, "--python", e.Data)
}

// importTime is the median of what importing alone costs.
func (e *Env) importTime(ctx context.Context, n int) (time.Duration, error) {
	const code = "import time; t = time.perf_counter(); import pandas; print(time.perf_counter() - t)"
	var times []time.Duration
	for range n {
		out, err := exec.CommandContext(ctx, e.Data, "-c", code).Output()
		if err != nil {
			return 0, fmt.Errorf("cannot import pandas: %w", err)
		}
		seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return 0, fmt.Errorf("cannot understand how long an import took: %w", err)
		}
		times = append(times, time.Duration(seconds*float64(time.Second)))
	}
	return Quantile(times, 0.5), nil
}

// wroteAll says whether an answer counts the whole of 1 GiB, and keeps little.
func wroteAll(body []byte) error {
	var a struct {
		Outcome   string `json:"outcome"`
		Stdout    string `json:"stdout"`
		Bytes     int64  `json:"stdout_bytes"`
		Truncated bool   `json:"stdout_truncated"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("cannot understand an answer: %w", err)
	}
	if a.Outcome != "ok" || a.Bytes != 1<<30 || !a.Truncated || len(a.Stdout) > 1<<20 {
		return fmt.Errorf("writing 1 GiB ended with outcome %q, %d bytes counted, %d kept", a.Outcome, a.Bytes, len(a.Stdout))
	}
	return nil
}
