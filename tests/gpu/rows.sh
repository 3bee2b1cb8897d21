#!/bin/sh
# Few long rows take several blocks each, on the smallest sizes that do, and give what they should.
. tests/cases
exec $py tests/gpu/rows.py "$tcc" "$@"
