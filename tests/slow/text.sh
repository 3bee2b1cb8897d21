# As tests/models/text.sh, of real models; CORPUS: see tests/corpus/compare.py.
[ -f "${CORPUS-}/index.tsv" ] || { echo "no real models: set CORPUS to a folder of them"; exit 77; }
run() {
	build/venv/bin/python tests/corpus/compare.py --tcc "${TCC_BUILD:-build}/tcc-ml" --first \
		--corpus "$CORPUS" --models "${MODELS:-$CORPUS/models}" --timeout 900 --mode "$1"
}
run text && run levels
