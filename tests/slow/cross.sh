# 200 operator tests for each machine that is emulated, as tests/codegen/cross.sh.
COUNT=200 exec sh tests/codegen/cross.sh
