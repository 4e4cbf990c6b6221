package local

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// initELF is a static program of a few hundred bytes that runs initCode.
// An interpreter must not be process 1 of its pid namespace, since signals
// without a handler do nothing there, and a real init would cost each sandbox
// milliseconds and megabytes.
func initELF() []byte {
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(initCode))
	head := elf.Header64{
		Ident:     [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:      uint16(elf.ET_EXEC),
		Machine:   elfMachine,
		Version:   uint32(elf.EV_CURRENT),
		Entry:     base + headers,
		Phoff:     64,
		Ehsize:    64,
		Phentsize: 56,
		Phnum:     1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
		Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000,
	}
	var file bytes.Buffer
	for _, part := range []any{head, segment, initCode} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			panic("BUG: cannot lay out init: " + err.Error())
		}
	}
	return file.Bytes()
}
