// Package tools tests tool calls on a real cluster: an agent's pod as its author
// wrote it, and its tools in copies. The rows of the cases name the tests.
package tools
