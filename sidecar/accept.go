package sidecar

import (
	"bytes"
	"strconv"
	"strings"
)

// wish is what an Accept header says of one kind of answer.
type wish struct {
	exact  int // how closely it is named: the closest word counts
	weight float64
	place  int
}

// accepted says in which events the caller wants a run told, if in any: those it
// names, where it does not want the whole answer as JSON more. Of what it wants
// equally, the first counts. A header that takes nothing that there is gets JSON
// all the same.
func accepted(headers [][]byte) events {
	wishes := map[events]wish{}
	place := 0
	for part := range strings.SplitSeq(string(bytes.Join(headers, []byte(","))), ",") {
		media, params, _ := strings.Cut(part, ";")
		place++
		if kind, exact := answers(media); exact > wishes[kind].exact {
			wishes[kind] = wish{exact, weight(params), place}
		}
	}
	best := noEvents
	for _, kind := range []events{sse, ndjson} {
		if w, b := wishes[kind], wishes[best]; w.weight > b.weight || w.weight == b.weight && w.weight > 0 && w.place < b.place {
			best = kind
		}
	}
	return best
}

// answers is the kind of answer that a media range is for, and how closely it
// names it; 0 for none. Events are for those who name them: a client that takes
// anything has not asked for a stream.
func answers(media string) (kind events, exact int) {
	switch media = strings.ToLower(strings.TrimSpace(media)); media {
	case string(sse), string(ndjson):
		return events(media), 3
	case "application/json":
		return noEvents, 3
	case "application/*":
		return noEvents, 2
	case "*/*":
		return noEvents, 1
	}
	return noEvents, 0
}

// weight is the q of a media range's parameters: 1 without one, and 0 for one
// that is none, since nothing is known of what was meant.
func weight(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
