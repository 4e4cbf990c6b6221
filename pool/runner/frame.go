package runner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
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
	body, err := readBody(r, maxRecord)
	if err != nil {
		return nil, err
	}
	rec := new(record)
	if err := json.Unmarshal(body, rec); err != nil {
		return nil, err
	}
	return rec, nil
}

var errTooLarge = errors.New("a frame is too large")

// readBody reads the bytes of one frame.
func readBody(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if head[0] == 'X' { // the zygote's word in place of a copy; no frame is that large
		said := make([]byte, 500)
		n, _ := r.Read(said)
		return nil, fmt.Errorf("the sandbox cannot be closed in: %s%s", head[1:], said[:max(n, 0)])
	}
	if int64(size) > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, over the limit of %d", errTooLarge, size, limit)
	}
	// The buffer grows with what arrives, not with what was announced.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(size)); err != nil {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return body.Bytes(), nil
}
