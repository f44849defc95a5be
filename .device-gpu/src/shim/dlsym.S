/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym.S - the exported dlsym and dlvsym.
 *
 * The pass-through path is a tail jump: the C library finds RTLD_NEXT and RTLD_DEFAULT by the return address, which
 * must stay the caller's. Written in assembler so that no optimisation level decides it.
 */
#if !defined(__x86_64__)
#error "the preloaded library is written for x86-64"
#endif
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    movq 16(%rsp), %rdx
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call resolve_pick
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jne 1f
    movq resolve_real_dlsym(%rip), %rax
    jmp *%rax
1:  ret
    .cfi_endproc
    .size dlsym, .-dlsym

    .globl dlvsym
    .type dlvsym, @function
dlvsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx
    call resolve_pick
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    jne 1f
    movq resolve_real_dlvsym(%rip), %rax
    jmp *%rax
1:  ret
    .cfi_endproc
    .size dlvsym, .-dlvsym
    .section .note.GNU-stack,"",@progbits
