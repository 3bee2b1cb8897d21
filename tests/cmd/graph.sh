# The drawings are well-formed, and have every operator.
. tests/cmd/lib
"$tcc" inspect "$digits" --graph dot >"$t/g.dot"
[ "$(grep -c 'label="Conv\\n' "$t/g.dot")" = 4 ] || fail "not four convolutions"
grep -q 'n[0-9]* -> n[0-9]*;' "$t/g.dot" || fail "no edges"
"$tcc" inspect models/tongue.onnx --graph html >"$t/g.html"
[ -x "$py" ] && "$py" - "$t/g.html" <<'PY'
import html.parser, sys
open_tags = []
class P(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag not in ("meta",): open_tags.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag): assert open_tags.pop() == tag, tag
P().feed(open(sys.argv[1]).read())
assert not open_tags
PY
if command -v dot >/dev/null; then
	dot -Tsvg "$t/g.dot" >/dev/null || fail "dot refuses it"
fi
