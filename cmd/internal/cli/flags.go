// Package cli is what the commands have in common: flags with the environment
// behind them, the end by a signal, exit codes.
package cli
