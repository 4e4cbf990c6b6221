package local

// initCode is process 1 of a sandbox; see init_amd64.go.
var initCode = instructions(
	0xa9bf7fff, //    stp  xzr, xzr, [sp, #-16]!   restorer, mask
	0xd2800029, //    mov  x9, #1                  SIG_IGN
	0xa9bf7fe9, //    stp  x9, xzr, [sp, #-16]!    handler, flags
	0xd2800220, //    mov  x0, #17                 SIGCHLD
	0x910003e1, //    mov  x1, sp
	0xd2800002, //    mov  x2, #0
	0xd2800103, //    mov  x3, #8
	0xd28010c8, //    mov  x8, #134                rt_sigaction
	0xd4000001, //    svc  #0
	0xd2800000, // 1: mov  x0, #0
	0x910003e1, //    mov  x1, sp
	0xd2800022, //    mov  x2, #1
	0xd28007e8, //    mov  x8, #63                 read
	0xd4000001, //    svc  #0
	0xb100101f, //    cmn  x0, #4                  -EINTR
	0x54ffff40, //    b.eq 1b
	0xd2800000, //    mov  x0, #0
	0xd2800bc8, //    mov  x8, #94                 exit_group
	0xd4000001, //    svc  #0
)

const elfMachine = 183 // EM_AARCH64

func instructions(words ...uint32) []byte {
	var code []byte
	for _, w := range words {
		code = append(code, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return code
}
