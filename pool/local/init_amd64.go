package local

// initCode is process 1 of a sandbox: ignore SIGCHLD, so that the kernel reaps
// orphans; read one byte from descriptor 0, which blocks until the zygote is
// gone; exit.
var initCode = []byte{
	0x31, 0xc0, //                         xor   %eax,%eax
	0x50, 0x50, 0x50, //                   push  %rax ×3       mask, restorer, flags
	0x6a, 0x01, //                         push  $1            SIG_IGN
	0xb8, 0x0d, 0x00, 0x00, 0x00, //       mov   $13,%eax      rt_sigaction
	0xbf, 0x11, 0x00, 0x00, 0x00, //       mov   $17,%edi      SIGCHLD
	0x48, 0x89, 0xe6, //                   mov   %rsp,%rsi
	0x31, 0xd2, //                         xor   %edx,%edx
	0x41, 0xba, 0x08, 0x00, 0x00, 0x00, // mov   $8,%r10d
	0x0f, 0x05, //                         syscall
	0x31, 0xc0, //                      1: xor   %eax,%eax     read
	0x31, 0xff, //                         xor   %edi,%edi
	0x48, 0x89, 0xe6, //                   mov   %rsp,%rsi
	0xba, 0x01, 0x00, 0x00, 0x00, //       mov   $1,%edx
	0x0f, 0x05, //                         syscall
	0x48, 0x83, 0xf8, 0xfc, //             cmp   $-4,%rax      -EINTR
	0x74, 0xec, //                         je    1b
	0xb8, 0xe7, 0x00, 0x00, 0x00, //       mov   $231,%eax     exit_group
	0x31, 0xff, //                         xor   %edi,%edi
	0x0f, 0x05, //                         syscall
}

const elfMachine = 62 // EM_X86_64
