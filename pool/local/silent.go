package local

import "time"

// fallSilent has the zygote replaced at the next pick.
func (z *zygote) fallSilent() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.silent.IsZero() {
		z.silent = time.Now()
	}
}

func (z *zygote) isSilent() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !z.silent.IsZero()
}

// overdue says whether a silent zygote need not be spared any longer: the runs
// that it had are over. It does not tell their ends itself.
func (z *zygote) overdue() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !z.silent.IsZero() && time.Since(z.silent) > z.longest
}
