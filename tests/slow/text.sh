# As tests/models/text.sh, of real models (tests/corpus/lib).
. tests/corpus/lib
compare --first --timeout 900 --mode text && compare --first --timeout 900 --mode levels
