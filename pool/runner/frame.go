package runner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxRecord bounds a record in bytes; the bootstrap's own are far smaller.
const maxRecord = 1 << 20

// writeFrame sends v as one frame: a 4-byte big-endian length and JSON.
func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeBody(w, body)
}

// writeBody sends JSON that is made already.
func writeBody(w io.Writer, body []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}

// readRecord reads one record, bounded.
func readRecord(r io.Reader) (*record, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes is over the limit of %d", size, maxRecord)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	rec := new(record)
	if err := json.Unmarshal(body, rec); err != nil {
		return nil, err
	}
	return rec, nil
}
