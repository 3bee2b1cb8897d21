#!/bin/sh
# Intel AMX: products in bf16 and int8 on the emulator, whose shapes leave no side whole; their instructions
# counted; the forms that a program takes without it.
. tests/cases
t=${TCC_TMP:-build/tests}/amx
rm -rf "$t" && mkdir -p "$t"
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "AMX is emulated on Linux and x86-64 only"; exit 77; }
so=$PWD/$t/amx.so
case $t in /*) so=$t/amx.so ;; esac
${CC:-cc} -shared -fPIC -O2 -o "$so" tests/codegen/amx_emu.c -lm -ldl || exit 1
exec $py tests/codegen/amx.py "$tcc" "$t" "$so"
