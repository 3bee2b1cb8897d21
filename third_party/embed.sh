#!/bin/sh
# Writes assembly that holds the named files and the table `tcc_embed` of codegen/embed.h.
# usage: embed.sh PATH|NAME=PATH... >embed.S
table=
n=0
echo '	.section .rodata'
for arg; do
	n=$((n + 1))
	cat <<EOF
n$n:	.asciz "${arg%%=*}"
	.balign 16
f$n:	.incbin "${arg#*=}"
e$n:	.byte 0
EOF
	table="$table
	.quad n$n, f$n, e$n - f$n"
done
cat <<EOF
	.section .data.rel.ro, "aw"
	.balign 8
	.globl tcc_embed
	.type tcc_embed, @object
tcc_embed:$table
	.quad 0, 0, 0
	.size tcc_embed, . - tcc_embed
	.section .note.GNU-stack, "", @progbits
EOF
