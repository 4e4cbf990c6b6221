// Package lifecycle tests that clusters come and go: beside another one, more
// than once, and after violence. Its tests have the build tag e2e.
package lifecycle
